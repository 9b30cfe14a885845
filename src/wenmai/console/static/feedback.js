// A thumb up or down on an answer, with a reason if the user likes to give one; kept with the trace.

import { call } from "./api.js";
import { drawn, element, showToast } from "./dom.js";
import { text } from "./texts.js";

const THUMB = "M2 9h3v9H2zM7 18V9.5L11 2c1.6 0 2.4 1 2.1 2.6L12.5 8h4.2c1.2 0 2 1 1.7 2.2l-1.5 6.2c-.2 1-1 1.6-2 1.6z";

/** The thumbs of an answer; `show(rating)` marks the one that was given. */
export class Thumbs {
  #path;
  #buttons = {};
  #rating = null;

  constructor(traceId) {
    this.#path = `v1/traces/${encodeURIComponent(traceId)}/feedback`;
    for (const rating of ["up", "down"]) {
      this.#buttons[rating] = element("button", {
        class: `thumb ${rating}`, "aria-label": text(rating), title: text(rating), "aria-pressed": "false",
        onclick: () => this.#toggle(rating),
      }, drawn("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" }, drawn("path", { d: THUMB })));
    }
    this.form = element("form", { class: "reason", hidden: true, onsubmit: (event) => this.#explain(event) },
      element("input", { maxlength: 500, "aria-label": text("why"), placeholder: text("why") }),
      element("button", {}, text("save")));
  }

  get buttons() {
    return Object.values(this.#buttons);
  }

  show(rating) {
    this.#rating = rating;
    for (const [name, button] of Object.entries(this.#buttons)) button.setAttribute("aria-pressed", String(name === rating));
  }

  async #toggle(rating) {
    const wanted = rating === this.#rating ? null : rating;
    if (await this.#send(wanted ? { rating: wanted } : null)) {
      this.show(wanted);
      this.form.hidden = !wanted;
      if (wanted) this.form.querySelector("input").focus();
      this.form.scrollIntoView({ block: "nearest" });
    }
  }

  async #explain(event) {
    event.preventDefault();
    const reason = this.form.querySelector("input").value.trim();
    if (await this.#send({ rating: this.#rating, reason })) {
      this.form.hidden = true;
      showToast(text("saved"), { seconds: 2 });
    }
  }

  async #send(body) {
    try {
      await call(body ? "PUT" : "DELETE", this.#path, { body });
      return true;
    } catch (problem) {
      showToast(problem.message);
      return false;
    }
  }
}
