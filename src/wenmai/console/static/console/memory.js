// What is remembered of a user: recall tried out, and the preferences, summaries and business state of a session.

import { element } from "../dom.js";
import { text } from "../texts.js";
import { bars, stackedColumns } from "./charts.js";
import { difference } from "./diff.js";
import { action, address, badge, card, empty, facts, field, form, id, link, moment, number, select, submit, table } from "./parts.js";
import { get, send } from "./request.js";
import { say } from "./texts.js";

const SESSIONS = 100;
const PROMPTS = 20;
const EPISODES = 500;
const TONES = 6;

export async function showMemory(content, { user = "", session = "" }) {
  const choose = form("filters", async (values) => { location.hash = address("memory", values); },
    field(say("user"), element("input", { name: "user", value: user, required: true, maxlength: 128, autocomplete: "off" })), submit(say("search")));
  if (!user) {
    content.replaceChildren(card(say("user"), choose, empty(say("chooseUser"))));
    return;
  }
  const { sessions } = await get("v1/sessions", { limit: SESSIONS }, user);
  const chosen = session || sessions[0]?.session_id;
  const named = sessions.map((each) => [each.session_id, each.title || each.first_question || each.session_id]);
  if (chosen && !named.some(([each]) => each === chosen)) named.push([chosen, chosen]);
  const picked = select("session", named, chosen);
  picked.addEventListener("change", () => { location.hash = address("memory", { user, session: picked.value }); });
  const results = element("div", {});
  const cards = [card(say("user"), choose), card(say("recall"), element("p", { class: "hint" }, say("recallHint")), recallForm(user, results), results)];
  if (chosen) {
    const parts = await Promise.all([episodes(user, chosen), preferences(user, chosen), summaries(user, chosen), state(user, chosen)]);
    cards.push(card(say("chooseSession"), field(say("title"), picked), element("div", { class: "buttons" }, link(say("messages"), "sessions", { user, session: chosen }))), ...parts);
  } else cards.push(card(say("sessions"), empty(say("noSessions"))));
  content.replaceChildren(...cards);
}

function recallForm(user, results) {
  return form("filters", async ({ query, unit, top_k }) => {
    const { items, degraded } = await send("POST", "v1/recall", { body: { query, unit, top_k: Number(top_k) }, user });
    results.replaceChildren(degraded.length ? badge(`${say("degraded")}: ${degraded.join(", ")}`, "warn") : "",
      items.length ? element("ol", { class: "results" }, ...items.map((each) => recalled(each, user))) : empty(say("notRecalled")));
  },
  field(say("query"), element("input", { name: "query", required: true, maxlength: 4000, autocomplete: "off" }), "wide"),
  field(say("unit"), select("unit", [["message", say("message")], ["turn", say("turn")]])),
  field(say("count"), select("top_k", [["5", "5"], ["10", "10"], ["50", "50"]], "5")), submit(say("search")));
}

function recalled(item, user) {
  const reasons = Object.entries(item.why).filter(([, value]) => value).map(([name, value]) => [say(`why_${name}`), value]);
  return element("li", {}, element("p", { class: "by" }, badge(`${say("score")} ${number(item.score, 3)}`), item.npc_id, " · ",
    link(`${say("turn")} ${item.turn_id}`, "sessions", { user, session: item.session_id }), " · ", moment(item.timestamp)),
  element("p", { class: "text" }, item.text), bars(say("reasons"), reasons, say("reasons"), say("score")));
}

/** The newest messages that may be recalled, by day (UTC) and persona. */
async function episodes(user, session) {
  const { messages } = await get(`v1/sessions/${id(session)}/messages`, { limit: EPISODES }, user);
  const recalled = messages.filter((each) => each.completed && (each.role === "user" || each.role === "assistant"));
  if (!recalled.length) return card(say("episodes"), empty(say("noEpisodes")));
  const personas = [...new Set(recalled.map((each) => each.npc_id))];
  const days = new Map();
  for (const { timestamp, npc_id: npc } of recalled) {
    const day = timestamp.slice(0, 10);
    const counts = days.get(day) ?? days.set(day, personas.map(() => 0)).get(day);
    counts[personas.indexOf(npc)] += 1;
  }
  const series = personas.map((name, at) => ({ name, kind: `tone-${(at % TONES) + 1}` }));
  return card(say("episodes"), element("p", { class: "hint" }, say("episodesHint")), stackedColumns(say("episodes"), [...days].sort(), series));
}

async function preferences(user, session) {
  const { preference } = await get(`api/v1/npc/sessions/${id(session)}`, { max_messages: 1 }, user);
  return card(say("preferences"), facts([[say("verbosity"), text(preference.verbosity)], [say("tone"), text(preference.tone)], [say("answerLanguage"), preference.language],
    [say("tags"), preference.interest_tags.join("、") || "–"], [say("updated"), preference.updated_at ? moment(preference.updated_at) : say("defaults")]]));
}

async function summaries(user, session) {
  const path = `v1/sessions/${id(session)}`;
  const { summaries: found } = await get(`${path}/summaries`, {}, user);
  const shown = await Promise.all(found.map(async (each) => {
    const { messages } = await get(`${path}/messages`, { npc_id: each.npc_id, limit: 500 }, user);
    const covered = messages.filter((message) => message.seq <= each.covered_message_count).reduce((sum, message) => sum + message.tokens, 0);
    return element("div", {}, element("h3", {}, each.npc_id), facts([[say("version"), String(each.version)], [say("covers"), number(each.covered_message_count)],
      [say("by"), each.written_by === "model" ? say("model") : say("rules")], [say("updated"), moment(each.created_at)],
      [say("saved"), `${number(Math.max(0, covered - each.tokens))} (${number(covered)} → ${number(each.tokens)})`]]),
    element("pre", {}, each.text || "–"));
  }));
  const history = element("div", {});
  const compare = action(say("loadHistory"), () => showVersions(history, user, session));
  return card(say("summaries"), ...(shown.length ? [...shown, element("h3", {}, say("history")), compare, history] : [empty(say("noSummary"))]));
}

/** The versions of the summary that the newest prompts had, each beside the one before it. */
async function showVersions(holder, user, session) {
  const { traces } = await get("api/v1/npc/traces", { session_id: session, limit: PROMPTS }, user);
  const whole = await Promise.all(traces.map((each) => get(`api/v1/npc/traces/${id(each.trace_id)}`, {}, user)));
  const seen = new Map();
  for (const trace of whole.reverse()) {
    const block = trace.blocks.find((each) => each.kind === "summary");
    const versions = seen.get(trace.npc_id) ?? seen.set(trace.npc_id, []).get(trace.npc_id);
    if (block && versions.at(-1)?.text !== block.text) versions.push({ text: block.text, turn: trace.turn_id });
  }
  const pairs = [...seen].flatMap(([npc, versions]) => versions.map((each, at) => [npc, versions[at - 1] ?? { text: "", turn: 0 }, each]));
  const name = (npc, { turn }) => (turn ? `${npc} · ${say("turn")} ${turn}` : "–");
  holder.replaceChildren(...(pairs.length ? pairs.reverse().map(([npc, before, after]) => difference(name(npc, before), before.text, name(npc, after), after.text))
    : [empty(say("noHistory"))]));
}

async function state(user, session) {
  const path = `v1/sessions/${id(session)}/state`;
  const [now, { changes }] = await Promise.all([get(path, {}, user), get(`${path}/changes`, {}, user)]);
  if (!changes.length) return card(say("state"), empty(say("noState")));
  const operation = (each) => [each?.intent || "–", each?.active_domain.join(", ") || "–", each?.business_object || "–", each?.operation_stage || "–"];
  const headings = [say("intent"), say("domain"), say("object"), say("stage")];
  const words = (seen) => [...new Set(Object.values(seen).flat())].filter(Boolean).join(", ");
  return card(say("state"), facts([[say("customer"), now.current_customer_id ?? "–"], [say("version"), String(now.version)]]),
    table(say("state"), headings, now.operation_chain.map(operation)), element("h3", {}, say("changes")),
    table(say("changes"), [say("version"), say("rule"), say("turn"), say("saw"), say("customer"), ...headings, say("time")], changes.reverse().map((each) =>
      [String(each.version), each.rule, each.turn || "–", words(each.saw) || "–", each.current_customer_id ?? "–", ...operation(each.operation), moment(each.at)])));
}
