// The same turn once more, with the same blocks or another prompt or model; both answers side by side.

import { call } from "./api.js";
import { element, section } from "./dom.js";
import { text } from "./texts.js";

/** A form that replays a trace. */
export function replay(trace) {
  const result = element("div", { "aria-live": "polite" });
  const button = element("button", { class: "primary" }, text("replay"));
  const run = async (event) => {
    event.preventDefault();
    button.disabled = true;
    result.replaceChildren(element("p", { class: "facts" }, text("running")));
    try {
      const answers = await call("POST", `api/v1/npc/traces/${encodeURIComponent(trace.trace_id)}/replay`);
      result.replaceChildren(sideBySide(answers.original, answers.replayed));
    } catch (problem) {
      result.replaceChildren(element("p", { class: "note error" }, problem.message));
    }
    button.disabled = false;
  };
  return section(text("replayTitle"), element("form", { class: "replay", onsubmit: run }, button), result);
}

function sideBySide(original, replayed) {
  return element("div", { class: "beside" }, answer(original, "then"), answer(replayed, "now"));
}

function answer(trace, heading) {
  const prompt = trace.request_input.prompt_version;
  const unverified = heading === "now" && trace.model !== "offline";
  const facts = [trace.model, unverified && text("unverifiedAnswer"), prompt && `${text("prompt")} ${prompt}`, `${trace.latency_ms.toFixed(0)} ${text("milliseconds")}`];
  return element("div", {}, element("h4", {}, text(heading)), element("p", { class: "facts" }, facts.filter(Boolean).join(" · ")),
    element("p", { class: "text" }, trace.answer));
}
