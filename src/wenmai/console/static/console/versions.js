// Versions of personas and system prompts: listed, compared side by side, created, activated, rolled back, deleted.

import { element, showToast } from "../dom.js";
import { localized } from "../texts.js";
import { difference } from "./diff.js";
import { action, address, badge, card, confirmed, empty, field, form, guarded, id, moment, select, submit, table } from "./parts.js";
import { get, send } from "./request.js";
import { say } from "./texts.js";

const KINDS = { prompts: "prompts", personas: "personas" };
const PAGE = 100;

export async function showVersions(content, { kind = "prompts", npc_id = "" }) {
  const { versions: active } = await get("api/v1/personas");
  const personas = active.map((each) => [each.npc_id, localized(each.value.name) || each.npc_id]);
  const chosen = npc_id || personas[0]?.[0];
  const filter = form("filters", async (values) => { location.hash = address("versions", values); },
    field(say("kind"), select("kind", Object.keys(KINDS).map((each) => [each, say(each)]), kind)), field(say("persona"), select("npc_id", personas, chosen)), submit(say("filter")));
  filter.addEventListener("change", () => filter.requestSubmit());
  const versions = await listed(kind, chosen);
  const again = () => guarded(() => showVersions(content, { kind, npc_id: chosen }));
  const persona = active.find((each) => each.npc_id === chosen);
  content.replaceChildren(card(say("filter"), filter), list(kind, chosen, versions, again),
    ...(versions.length > 1 ? [comparison(versions, kind)] : []), creation(kind, chosen, versions, persona, again));
}

async function listed(kind, npc) {
  try {
    return (await get(`api/v1/${kind}/${id(npc)}/versions`, { limit: PAGE })).versions;
  } catch (problem) {
    if (problem.status === 404) return [];
    throw problem;
  }
}

/** A version as text that people compare and edit. */
const shown = (value, kind) => (kind === "prompts" ? value.text : JSON.stringify(value, null, 2));

function list(kind, npc, versions, again) {
  const active = versions.find((each) => each.active)?.number;
  const path = `api/v1/${kind}/${id(npc)}`;
  const activate = async (number) => {
    await send("POST", `${path}/set-active`, { body: { number, expected: active } });
    showToast(`${say("activated")}: ${number}`);
    await again();
  };
  const remove = async (number) => {
    await send("DELETE", `${path}/versions/${number}`);
    await again();
  };
  const buttons = (each) => (each.active ? badge(say("activeVersion"), "good") : element("span", { class: "buttons" },
    action(`${say("activate")} ${each.number}`, () => activate(each.number)),
    each.created_at && action(`${say("delete")} ${each.number}…`, async () => confirmed(say("deleteVersion"), `${npc} · ${each.number}`, say("delete"), () => remove(each.number)), "danger")));
  const rows = versions.map((each) => [String(each.number), buttons(each), each.note || "–", each.author || "–", each.created_at ? moment(each.created_at) : say("fromProfile")]);
  return card(`${say(kind)}: ${npc}`, versions.length ? table(say(kind), [say("version"), say("status"), say("note"), say("author"), say("created")], rows) : empty(say("noVersions")));
}

function comparison(versions, kind) {
  const options = versions.map((each) => [String(each.number), `${say("version")} ${each.number}`]);
  const active = versions.find((each) => each.active) ?? versions[0];
  const other = versions.find((each) => each !== active);
  const left = select("left", options, String(Math.min(active.number, other.number)));
  const right = select("right", options, String(Math.max(active.number, other.number)));
  const holder = element("div", {});
  const show = () => {
    const [one, two] = [left, right].map((each) => versions.find(({ number }) => String(number) === each.value));
    holder.replaceChildren(difference(`${say("version")} ${one.number}`, shown(one.value, kind), `${say("version")} ${two.number}`, shown(two.value, kind)));
  };
  left.addEventListener("change", show);
  right.addEventListener("change", show);
  show();
  return card(say("compare"), element("div", { class: "filters" }, field(say("left_"), left), field(say("right_"), right)), holder);
}

function creation(kind, npc, versions, persona, again) {
  const current = versions.find((each) => each.active);
  const value = current ? shown(current.value, kind) : kind === "prompts" ? localized(persona?.value.system) : "{}";
  const language = current?.value.language ?? document.documentElement.lang;
  const made = form("form", async (values) => {
    const common = { npc_id: npc, author: values.author, note: values.note };
    const body = kind === "prompts" ? { ...common, text: values.text, language: values.language } : { ...common, persona: parsed(values.text) };
    const created = await send("POST", `api/v1/${kind}`, { body });
    showToast(`${say("created_")} ${created.number}`);
    await again();
  },
  field(kind === "prompts" ? say("promptText") : say("json"), element("textarea", { name: "text", required: true, spellcheck: "false" }, value)),
  element("div", { class: "filters" }, kind === "prompts" ? field(say("answerLanguage"), element("input", { name: "language", value: language, required: true })) : null,
    field(say("author"), element("input", { name: "author", maxlength: 500 })), field(say("note"), element("input", { name: "note", maxlength: 500 }))),
  submit(say("create")));
  return card(say("newVersion"), made);
}

function parsed(text) {
  try {
    const { npc_id: _, ...persona } = JSON.parse(text);
    return persona;
  } catch {
    throw new Error(say("badJson"));
  }
}
