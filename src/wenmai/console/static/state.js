// The business state before and after a turn.

import { call } from "./api.js";
import { element, section, table } from "./dom.js";
import { text } from "./texts.js";

const FIELDS = ["intent", "active_domain", "business_object", "operation_stage"];

/** The section of a trace; null where the profile has no business rules. */
export async function stateChange(trace) {
  const state = trace.details.business;
  if (!state) return null;
  const before = state.changes.length ? await previous(trace.session_id, state.changes[0].version) : state;
  const rows = [
    [text("customer"), shown(before.current_customer_id), shown(state.current_customer_id)],
    ...FIELDS.map((field) => [text(field === "intent" ? "businessIntent" : field), shown(before.operation?.[field]), shown(state.operation?.[field])]),
  ].filter(([, old, now]) => old !== "–" || now !== "–");
  const causes = state.changes.map((each) => `${each.version}. ${each.rule}${matched(each)}`);
  return section(text("state"),
    rows.length ? table(["field", "before", "after"], rows, ([, old, now]) => (old === now ? null : "changed")) : null,
    element("p", { class: "facts" }, causes.length ? `${text("changes")}: ${causes.join("; ")}` : text("unchanged")));
}

/** What was current before a version; the audit has it, unless the session is gone. */
async function previous(sessionId, version) {
  if (version === 1) return {};
  const path = `v1/sessions/${encodeURIComponent(sessionId)}/state/changes`;
  return (await call("GET", path, { query: { before: version, limit: 1 } })).changes[0] ?? {};
}

const shown = (value) => (Array.isArray(value) ? value.join(", ") : value) || "–";
const matched = (change) => (change.saw.matched?.length ? ` (${change.saw.matched.join(", ")})` : "");
