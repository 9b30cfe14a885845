// One message: its text, what is noted below it, and what can be done with it.

import { element, showHtml, showToast } from "./dom.js";
import { Thumbs } from "./feedback.js";
import { inspect } from "./inspector.js";
import { citationList } from "./passages.js";
import { portrait } from "./portrait.js";
import { failedParts, localized, text } from "./texts.js";

export class Bubble {
  #source = "";
  #thumbs = null;

  /** A message of a role; an answer has the portrait and the name of its persona. */
  constructor(role, { personaId = "", persona = null } = {}) {
    this.body = element("div", { class: "text" });
    this.below = element("div", { class: "below" });
    const name = persona ? element("span", { class: "name" }, localized(persona.value.name)) : null;
    this.row = element("article", { class: `message ${role}`, "aria-label": text(role) },
      role === "assistant" ? portrait(personaId) : null, element("div", { class: "bubble" }, name, this.body, this.below));
  }

  /** The text as it was written; empty while there is none yet. */
  show(words) {
    this.#source = words;
    this.body.classList.toggle("thinking", !words);
    this.body.replaceChildren(words || element("span", { class: "hidden" }, text("thinking")));
  }

  /** The same text as the service renders it. */
  format(html) {
    showHtml(this.body, html);
  }

  note(words, kind) {
    this.body.classList.remove("thinking");
    if (!this.#source) this.body.replaceChildren();
    this.below.append(element("p", { class: `note ${kind}` }, words));
  }

  /** What stands below a complete answer. */
  finish({ traceId = null, mode = null, citations = [], degraded = [], again = null }) {
    const failed = failedParts(degraded);
    if (failed) this.note(text("partly").replace("#", failed), "pending");
    if (mode === "refuse" || (mode === "conservative" && !failed)) this.note(text(mode), mode);
    if (citations.length) this.below.append(citationList(citations));
    this.offer({ traceId, again });
  }

  /** Buttons below an answer. */
  offer({ traceId = null, again = null }) {
    const copy = async () => {
      await navigator.clipboard.writeText(this.#source);
      showToast(text("copied"), { seconds: 2 });
    };
    if (traceId) this.#thumbs = new Thumbs(traceId);
    this.below.append(element("div", { class: "tools" },
      this.#source && element("button", { onclick: copy }, text("copy")),
      again && element("button", { onclick: again }, text("again")),
      this.#thumbs?.buttons,
      traceId && element("button", { onclick: () => inspect(traceId) }, text("inspect"))), this.#thumbs?.form ?? "");
  }

  /** Mark the feedback that the user gave. */
  rated(rating) {
    this.#thumbs?.show(rating);
  }
}
