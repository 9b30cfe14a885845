// Calls of the public API. The pages know nothing that the API does not say.

/** An answer of the service that is no success; `message` is the detail of its problem. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail ?? `HTTP ${status}`);
    this.status = status;
    this.type = problem.type ?? "";
  }
}

let key = sessionStorage.getItem("wenmai.key") ?? "";

/** Use this API key from now on, until the tab is closed. */
export function useKey(given) {
  key = given;
  sessionStorage.setItem("wenmai.key", given);
}

function headers(more = {}) {
  return key ? { Authorization: `Bearer ${key}`, ...more } : more;
}

async function checked(response) {
  if (response.ok) return response;
  let problem = {};
  try {
    problem = await response.json();
  } catch {
    // A proxy may answer with something else.
  }
  throw new Refused(response.status, problem);
}

/** The JSON of a route, relative to the page. */
export async function call(method, path, options = {}) {
  return (await fetched(method, path, options)).json();
}

/** The successful response of a route; a file as the body is sent as it is. */
export async function fetched(method, path, { body = null, query = {}, keepalive = false, extra = {} } = {}) {
  const url = new URL(path, document.baseURI);
  for (const [name, value] of Object.entries(query)) for (const each of [value].flat()) if (each) url.searchParams.append(name, each);
  const response = await fetch(url, {
    method,
    keepalive,
    headers: headers({ ...(body && !(body instanceof Blob) ? { "Content-Type": "application/json" } : {}), ...extra }),
    body: body instanceof Blob || !body ? body : JSON.stringify(body),
  });
  return checked(response);
}

/** Save the answer of a route as a file. */
export async function download(path, name) {
  const response = await checked(await fetch(new URL(path, document.baseURI), { headers: headers() }));
  const url = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

const RETRY_SECONDS = [1, 2, 4, 8];

/** Ask a question; `onEvent(name, data)` for each event. A lost connection is resumed under the same key: one turn, one answer. */
export async function ask(body, { onEvent, onRetry, signal }) {
  const idempotencyKey = crypto.randomUUID();
  for (const seconds of [...RETRY_SECONDS, null]) {
    try {
      return await streamed(body, idempotencyKey, onEvent, signal);
    } catch (problem) {
      const final = problem instanceof Refused && ![502, 503, 504].includes(problem.status);
      if (signal.aborted || final || seconds === null) throw problem;
      onRetry();
      await pause(seconds, signal);
    }
  }
  return null;
}

/** Wait, and without a network until there is one again. */
function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    if (navigator.onLine) setTimeout(resolve, seconds * 1000);
    else addEventListener("online", resolve, { once: true });
  });
}

async function streamed(body, idempotencyKey, onEvent, signal) {
  const response = await fetch(new URL("api/v1/npc/chat", document.baseURI), {
    method: "POST",
    signal,
    headers: headers({
      "Content-Type": "application/json",
      Accept: "text/event-stream",
      "Idempotency-Key": idempotencyKey,
    }),
    body: JSON.stringify(body),
  });
  await checked(response);
  let done = null;
  for await (const { name, data } of events(response.body)) {
    if (name === "error") throw new Refused(data.status ?? 500, data);
    if (name === "done") done = data;
    onEvent(name, data);
  }
  if (done === null) throw new TypeError("the stream ended early");
  return done;
}

async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    pending += value;
    const blocks = pending.split("\n\n");
    pending = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s, 2)));
      if (fields.event) yield { name: fields.event, data: JSON.parse(fields.data) };
    }
  }
}
