// The same turn once more, as it was or with another prompt or model; both answers side by side.

import { call } from "./api.js";
import { element, section } from "./dom.js";
import { text } from "./texts.js";

/** A form that replays a trace. */
export async function replay(trace) {
  const models = await choices("api/v1/npc/models", "models");
  const prompts = models.length ? await versions(trace.npc_id) : [];
  const result = element("div", { "aria-live": "polite" });
  const button = element("button", { class: "primary" }, text("replay"));
  const run = async (event) => {
    event.preventDefault();
    const { model, prompt } = Object.fromEntries(new FormData(event.target));
    const body = { ...(model && { model }), ...(prompt && { prompt_version: Number(prompt) }) };
    button.disabled = true;
    result.replaceChildren(element("p", { class: "facts" }, text("running")));
    try {
      const answers = await call("POST", `api/v1/npc/traces/${encodeURIComponent(trace.trace_id)}/replay`, { body });
      result.replaceChildren(element("div", { class: "beside" }, answer(answers.original, "then"), answer(answers.replayed, "now")));
    } catch (problem) {
      result.replaceChildren(element("p", { class: "note error" }, problem.message));
    }
    button.disabled = false;
  };
  const form = element("form", { class: "replay", onsubmit: run },
    select("model", models), select("prompt", prompts), button);
  return section(text("replayTitle"), form, result);
}

/** A choice of values; nothing if there is none. */
function select(name, values) {
  return values.length > 0 && element("label", {}, text(name),
    element("select", { name }, element("option", { value: "" }, text("same")),
      ...values.map((each) => element("option", { value: each }, String(each)))));
}

/** A list of the API; empty for who may not read it. */
async function choices(path, field) {
  try {
    return (await call("GET", path))[field];
  } catch {
    return [];
  }
}

async function versions(personaId) {
  const active = await choices("api/v1/prompts", "versions");
  if (!active.some((each) => each.npc_id === personaId)) return [];
  return (await choices(`api/v1/prompts/${encodeURIComponent(personaId)}/versions`, "versions")).map((each) => each.number);
}

function answer(trace, heading) {
  const prompt = trace.request_input.prompt_version;
  const unverified = heading === "now" && trace.model !== "offline";
  const facts = [trace.model, prompt && `${text("prompt")} ${prompt}`, `${trace.latency_ms.toFixed(0)} ${text("milliseconds")}`,
    unverified && text("unverifiedAnswer")];
  return element("div", {}, element("h4", {}, text(heading)), element("p", { class: "facts" }, facts.filter(Boolean).join(" · ")),
    element("p", { class: "text" }, trace.answer));
}
