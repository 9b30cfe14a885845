// Why an answer was given: the trace of a turn, with its figures as bars and as tables.

import { call } from "./api.js";
import { element, showDialog, showToast } from "./dom.js";
import { text } from "./texts.js";

export async function inspect(traceId) {
  try {
    const trace = await call("GET", `api/v1/npc/traces/${encodeURIComponent(traceId)}`);
    showDialog(text("inspectTitle"), text("close"), decision(trace), removed(trace), evidence(trace), blocks(trace), steps(trace));
  } catch (problem) {
    showToast(problem.status === 404 ? text("noTrace") : problem.message);
  }
}

function section(heading, ...content) {
  return element("section", {}, element("h3", {}, heading), ...content);
}

function decision(trace) {
  const asked = trace.request_input;
  const versions = [`persona ${asked.persona_version ?? "–"}`, `prompt ${asked.prompt_version ?? asked.prompt_source}`].join(", ");
  const rows = [
    ["intent", trace.intent], ["mode", trace.policy_mode], ["reason", trace.policy_reason], ["searched", asked.rewritten_query],
    ["model", trace.model], ["versions", versions], ["degraded", trace.degraded.join(", ")],
  ];
  return section(text("decision"), element("dl", { class: "facts" }, ...rows.filter(([, value]) => value)
    .flatMap(([key, value]) => [element("dt", {}, text(key)), element("dd", {}, String(value))])));
}

function removed(trace) {
  const statements = trace.details?.removed ?? [];
  if (!statements.length) return null;
  return section(text("removed"), element("ul", {}, ...statements.map((each) => element("li", {},
    element("del", {}, each.text), ` (${each.reason})`,
    each.replaced_by ? element("p", {}, `${text("replaced")}: `, element("ins", {}, each.replaced_by)) : null))));
}

function evidence(trace) {
  const found = trace.details?.passages ?? trace.evidence_ids.map((id) => ({ evidence_id: id }));
  if (!found.length) return null;
  const rows = found.map((each) => [each.evidence_id, each.score === undefined ? "" : each.score.toFixed(3)]);
  return section(text("evidence"), table(["evidence", "score"], rows));
}

function blocks(trace) {
  const total = trace.blocks.reduce((sum, each) => sum + each.tokens, 0);
  if (!total) return null;
  const bar = element("div", { class: "stack", "aria-hidden": "true" }, ...trace.blocks.map((each) => sized(
    element("span", { class: `part block-${each.kind}`, title: `${each.kind}: ${each.tokens}` }), each.tokens / total)));
  const texts = trace.blocks.map((each) => element("details", {},
    element("summary", {}, element("span", { class: `key block-${each.kind}` }), ` ${each.kind}: ${each.tokens} ${text("tokens")}`),
    element("pre", {}, each.text)));
  return section(`${text("blocks")} (${total} ${text("tokens")})`, bar, ...texts);
}

function steps(trace) {
  const total = trace.tool_calls.reduce((sum, each) => sum + each.duration_ms, 0) || 1;
  let before = 0;
  const bars = trace.tool_calls.map((each) => {
    const part = sized(element("span", { class: `part step-${each.status}` }), Math.max(each.duration_ms / total, 0.004));
    part.style.marginInlineStart = `${(100 * before) / total}%`;
    before += each.duration_ms;
    return element("div", { class: "fall" }, element("span", { class: "label" }, each.name), element("span", { class: "lane" }, part));
  });
  const rows = trace.tool_calls.map((each) => [each.name, each.status, each.duration_ms.toFixed(1)]);
  return section(`${text("steps")} (${trace.latency_ms.toFixed(0)} ${text("milliseconds")})`,
    element("div", { "aria-hidden": "true" }, ...bars),
    element("details", {}, element("summary", {}, text("table")), table(["step", "status", "milliseconds"], rows)));
}

function sized(part, share) {
  part.style.width = `${100 * share}%`;
  return part;
}

function table(headings, rows) {
  return element("table", {},
    element("thead", {}, element("tr", {}, ...headings.map((each) => element("th", { scope: "col" }, text(each))))),
    element("tbody", {}, ...rows.map((cells) => element("tr", {}, ...cells.map((each) => element("td", {}, each))))));
}
