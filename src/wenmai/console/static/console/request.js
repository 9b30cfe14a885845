// Calls of the API in the scope that the console shows.

import { call, fetched } from "../api.js";

const scope = JSON.parse(sessionStorage.getItem("wenmai.scope") ?? "{}");

export const currentScope = () => ({ tenant: scope.tenant ?? "", site: scope.site ?? "" });

export function useScope({ tenant, site }) {
  Object.assign(scope, { tenant, site });
  sessionStorage.setItem("wenmai.scope", JSON.stringify(scope));
}

function scoped({ user = "", extra = {}, ...options }) {
  const named = { "X-Tenant-ID": scope.tenant, "X-Site-ID": scope.site, "X-User-ID": user };
  const given = Object.entries(named).filter(([, value]) => value);
  return { ...options, extra: { ...Object.fromEntries(given), ...extra } };
}

/** The JSON of a route; `user` is whose data it is about. */
export const get = (path, query = {}, user = "") => call("GET", path, scoped({ query, user }));

/** The JSON of a route that changes something; null if it answers without content. */
export async function send(method, path, { body = null, query = {}, user = "", extra = {} } = {}) {
  const response = await fetched(method, path, scoped({ body, query, user, extra }));
  return response.status === 204 ? null : response.json();
}

/** The text of a route. */
export const getText = async (path) => (await fetched("GET", path, scoped({}))).text();

/** Save what a route returns as a file. */
export async function saveAs(path, name, { query = {}, user = "" } = {}) {
  saveBlob(await (await fetched("GET", path, scoped({ query, user }))).blob(), name);
}

export function saveBlob(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** The state of the service, which is answered with 503 too. */
export const readiness = async () => (await fetch(new URL("readyz", document.baseURI))).json();
