// Traces of a user: filtered, and one opened with its prompt, steps and verification.

import { element } from "../dom.js";
import { localized } from "../texts.js";
import { shares, waterfall } from "./charts.js";
import { address, badge, card, empty, facts, field, form, id, link, moment, number, pagedTable, select, submit, table } from "./parts.js";
import { get } from "./request.js";
import { say } from "./texts.js";

const PAGE = 50;
const MODES = ["normal", "conservative", "refuse"];
const DEFAULT_USER = "anonymous";

export async function showTraces(content, { user = "", trace = "", session = "", npc_id = "", policy_mode = "", degraded = "", min_latency_ms = "" }) {
  if (trace) {
    await showTrace(content, user, trace);
    return;
  }
  const { versions } = await get("api/v1/personas");
  const personas = versions.map((each) => [each.npc_id, localized(each.value.name) || each.npc_id]);
  const text = (name, value, more) => element("input", { name, value, maxlength: 128, autocomplete: "off", ...more });
  const filter = form("filters", async (values) => { location.hash = address("traces", values); },
    field(say("user"), text("user", user, { placeholder: DEFAULT_USER })),
    field(say("session"), text("session", session)),
    field(say("persona"), select("npc_id", [["", say("any")], ...personas], npc_id)),
    field(say("mode"), select("policy_mode", [["", say("any")], ...MODES.map((mode) => [mode, say(mode)])], policy_mode)),
    field(say("degraded"), select("degraded", [["", say("any")], ["true", say("yes")], ["false", say("no")]], degraded)),
    field(say("minLatency"), text("min_latency_ms", min_latency_ms, { type: "number", min: 0 })),
    submit(say("filter")));
  // The store has an index for each of these, not for two of them together.
  const [indexed, ...others] = Object.entries({ session_id: session, npc_id, policy_mode }).filter(([, value]) => value);
  const query = { ...Object.fromEntries(indexed ? [indexed] : []), degraded, min_latency_ms, limit: PAGE };
  const headings = [say("query"), say("persona"), say("mode"), say("latency"), say("degraded"), say("time")];
  const list = pagedTable(say("traces"), headings, async (cursor) => {
    const page = await get("api/v1/npc/traces", { ...query, cursor }, user);
    const shown = page.traces.filter((each) => others.every(([name, value]) => each[name] === value));
    return { next: page.next, rows: shown.map((each) => [link(each.query || each.trace_id, "traces", { user, trace: each.trace_id }), each.npc_id,
      mode(each), `${number(each.latency_ms)} ms`, each.degraded.length ? badge(each.degraded.join(", "), "warn") : "–", moment(each.started_at)]) };
  }, { none: say("noTraces") });
  await list.ready;
  content.replaceChildren(card(say("filter"), filter), card(`${say("traces")}: ${user || DEFAULT_USER}`, list.holder));
}

const mode = (trace) => badge(say(trace.policy_mode), `mode-${trace.policy_mode}`);

async function showTrace(content, user, traceId) {
  const trace = await get(`api/v1/npc/traces/${id(traceId)}`, {}, user);
  content.replaceChildren(decision(trace), blocks(trace), steps(trace), verification(trace), passages(trace));
}

function decision(trace) {
  const asked = trace.request_input;
  return card(asked.query || trace.trace_id, facts([
    [say("trace"), trace.trace_id], [say("user"), link(trace.user_id, "sessions", { user: trace.user_id })],
    [say("session"), link(trace.session_id, "sessions", { user: trace.user_id, session: trace.session_id })], [say("time"), moment(trace.started_at)],
    [say("persona"), `${trace.npc_id} (${say("version")} ${asked.persona_version ?? "–"})`],
    [say("prompt"), asked.prompt_version ? `${say("version")} ${asked.prompt_version}` : asked.prompt_source],
    [say("intent"), trace.intent], [say("searched"), asked.rewritten_query], [say("mode"), mode(trace)], [say("reason"), trace.policy_reason],
    [say("model"), trace.model], [say("promptTokens"), number(trace.prompt_tokens)], [say("completionTokens"), number(trace.completion_tokens)],
    [say("cost"), `$${number(trace.cost_usd, 5)}`], [say("latency"), `${number(trace.latency_ms)} ms`],
    [say("degraded"), trace.degraded.join(", ")], [say("error"), trace.error], [say("feedback"), [trace.details.feedback?.rating, trace.details.feedback?.reason].filter(Boolean).join(": ")]]),
  element("h3", {}, say("answer")), element("p", { class: "text" }, trace.answer || "–"));
}

function blocks(trace) {
  const total = trace.blocks.reduce((sum, each) => sum + each.tokens, 0);
  const parts = trace.blocks.map((each) => [each.kind, each.tokens, `block-${each.kind}`]);
  const cut = Object.entries(trace.details.cut ?? {}).map(([kind, value]) => `${kind}: ${typeof value === "object" ? JSON.stringify(value) : value}`);
  return card(`${say("blocks")} (${number(total)} ${say("tokens")})`, total ? shares(say("blocks"), parts, say("kind")) : empty(say("nothing")),
    cut.length ? facts([[say("cut"), cut.join(", ")]]) : null,
    ...trace.blocks.map((each) => element("details", {}, element("summary", {}, `${each.kind}: ${number(each.tokens)} ${say("tokens")}`), element("pre", {}, each.text))));
}

const steps = (trace) => card(`${say("steps")} (${number(trace.latency_ms)} ms)`, waterfall(say("steps"), trace.tool_calls));

function verification(trace) {
  const removed = trace.details.removed ?? [];
  return card(say("verification"), removed.length ? element("ul", {}, ...removed.map((each) => element("li", {}, element("del", {}, each.text), ` (${each.reason})`,
    each.replaced_by ? element("p", {}, `${say("replacedBy")}: `, element("ins", {}, each.replaced_by)) : null))) : empty(say("nothingRemoved")));
}

function passages(trace) {
  const found = trace.details.passages ?? [];
  const rows = found.map((each) => {
    const shown = link(each.evidence_id, "evidence", { passage: each.evidence_id });
    get(`api/v1/evidence/${id(each.evidence_id)}`).then(({ title }) => { shown.textContent = title || each.evidence_id; }, () => {}); // deleted: its id
    return [shown, number(each.score, 3)];
  });
  return card(say("passages"), found.length ? table(say("passages"), [say("passage"), say("score")], rows) : empty(say("nothingFound")));
}
