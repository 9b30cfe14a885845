// Why an answer was given: the trace of a turn, with its figures as bars and as tables.

import { call } from "./api.js";
import { element, section, showDialog, showToast, sized, table } from "./dom.js";
import { titleOf } from "./passages.js";
import { replay } from "./replay.js";
import { stateChange } from "./state.js";
import { text } from "./texts.js";

export async function inspect(traceId) {
  try {
    const trace = await call("GET", `api/v1/npc/traces/${encodeURIComponent(traceId)}`);
    const parts = [decision(trace), feedback(trace), await stateChange(trace), removed(trace), evidence(trace), blocks(trace), steps(trace)];
    showDialog(text("inspectTitle"), text("close"), ...parts, await replay(trace));
  } catch (problem) {
    showToast(problem.status === 404 ? text("noTrace") : problem.message);
  }
}

function decision(trace) {
  const asked = trace.request_input;
  const prompt = asked.prompt_version ? `${text("prompt")} ${asked.prompt_version}` : text("ownPrompt");
  const rows = [
    ["asked", asked.query], ["searched", asked.rewritten_query === asked.query ? "" : asked.rewritten_query],
    ["intent", trace.intent], ["role", asked.role], ["mode", trace.policy_mode], ["reason", trace.policy_reason], ["model", trace.model],
    ["versions", [`${text("persona")} ${asked.persona_version ?? "–"}`, prompt].join(" · ")],
    ["tokens", trace.prompt_tokens ? `${trace.prompt_tokens} → ${trace.completion_tokens}` : ""],
    ["degraded", trace.degraded.join(", ")], ["premises", (trace.details.premises ?? []).join("; ")],
  ];
  return section(text("decision"), element("dl", { class: "facts" }, ...rows.filter(([, value]) => value)
    .flatMap(([key, value]) => [element("dt", {}, text(key)), element("dd", {}, String(value))])));
}

function feedback(trace) {
  const given = trace.details.feedback;
  return given && section(text("feedback"), element("p", {}, [text(given.rating), given.reason].filter(Boolean).join(": ")));
}

/** What verification removed, struck through, with the reason and what stands in its place. */
function removed(trace) {
  const statements = trace.details.removed;
  return statements.length > 0 && section(text("removed"), element("ul", { class: "removed" }, ...statements.map((each) => element("li", {},
    element("del", {}, each.text), " ", element("span", { class: "tag" }, each.reason),
    each.replaced_by && element("p", {}, `${text("replaced")}: `, element("ins", {}, each.replaced_by))))));
}

function evidence(trace) {
  const found = trace.details.passages;
  const cited = new Map((trace.details.answer?.citations ?? []).map((each) => [each.evidence_id, each.title]));
  const rows = found.map(({ evidence_id: id, score }) => [
    [titleOf(id, cited.get(id)), " ", element("span", { class: "id" }, id)], score.toFixed(3), cited.has(id) ? text("cited") : "",
  ]);
  return found.length > 0 && section(text("evidence"), table(["evidence", "score", "used"], rows));
}

function blocks(trace) {
  const total = trace.blocks.reduce((sum, each) => sum + each.tokens, 0);
  if (!total) return null;
  const bar = element("div", { class: "stack", "aria-hidden": "true" }, ...trace.blocks.map((each) => sized(
    element("span", { class: `part block-${each.kind}`, title: `${each.kind}: ${each.tokens}` }), each.tokens / total)));
  const texts = trace.blocks.map((each) => element("details", {},
    element("summary", {}, element("span", { class: `key block-${each.kind}` }), ` ${each.kind}: ${each.tokens} ${text("tokens")}`),
    element("pre", {}, each.text)));
  return section(`${text("blocks")} (${total} ${text("tokens")})`, bar, ...texts, cut(trace));
}

/** What was left out for lack of room. */
function cut(trace) {
  const { history = {}, others = {}, ...kinds } = trace.details.cut;
  const flat = { ...kinds, ...others, ...Object.fromEntries(Object.entries(history).map(([name, value]) => [`history.${name}`, value])) };
  const shown = Object.entries(flat).map(([name, value]) => `${name} ${value}`).join(" · ");
  return shown && element("p", { class: "facts" }, `${text("cut")}: ${shown}`);
}

/** The steps one below another, each where it began and as long as it took. */
function steps(trace) {
  const total = trace.tool_calls.reduce((sum, each) => sum + each.duration_ms, 0) || 1;
  let before = 0;
  const bars = trace.tool_calls.map((each) => {
    const part = sized(element("span", { class: `part step-${each.status}` }), Math.max(each.duration_ms / total, 0.004));
    part.style.marginInlineStart = `${(100 * before) / total}%`;
    before += each.duration_ms;
    return element("div", { class: "fall" }, element("span", { class: "label" }, each.name), element("span", { class: "lane" }, part),
      element("span", { class: "time" }, each.duration_ms.toFixed(1)));
  });
  const rows = trace.tool_calls.map((each) => [each.name, each.status, each.duration_ms.toFixed(1)]);
  return section(`${text("steps")} (${trace.latency_ms.toFixed(0)} ${text("milliseconds")})`,
    element("div", { "aria-hidden": "true" }, ...bars),
    element("details", {}, element("summary", {}, text("table")), table(["step", "status", "milliseconds"], rows)));
}
