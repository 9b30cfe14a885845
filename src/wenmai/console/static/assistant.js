// The assistant's panel: the user's role, the current object with its stages as a path, and correcting them.

import { call } from "./api.js";
import { byId, element, showToast } from "./dom.js";
import { language, text } from "./texts.js";

const ROLE = "wenmai.role";

export class Assistant {
  #described = { npc_id: "", roles: [], objects: [], intents: [] };
  #area = byId("assistant");
  #sessionId = null;
  #state = null;
  #onRole;

  /** `onRole()` when the user has chosen another role. */
  constructor({ onRole }) {
    this.#onRole = onRole;
  }

  async load() {
    this.#described = await call("GET", "api/assistant");
  }

  /** The role with which a persona is asked; null where there are none. */
  roleFor(personaId) {
    const role = localStorage.getItem(ROLE);
    return this.#is(personaId) && this.#described.roles.includes(role) ? role : null;
  }

  /** Questions to begin with; none for other personas. */
  async quickQuestions(personaId) {
    if (!this.#is(personaId)) return [];
    const query = { role: this.roleFor(personaId), language: language() };
    return (await call("GET", "api/quick-questions", { query })).questions;
  }

  /** Show what the user of a session is doing; nothing for personas without business rules. */
  async show(personaId, sessionId) {
    const { roles, objects } = this.#described;
    this.#sessionId = sessionId;
    this.#area.hidden = !this.#is(personaId) || !(roles.length || objects.length);
    if (this.#area.hidden) return;
    const state = sessionId && objects.length ? await call("GET", this.#path()) : null;
    if (this.#sessionId === sessionId) this.#render(state);
  }

  #is(personaId) {
    return personaId === this.#described.npc_id;
  }

  #path() {
    return `v1/sessions/${encodeURIComponent(this.#sessionId)}/state`;
  }

  #render(state) {
    this.#state = state;
    const { roles, objects } = this.#described;
    const now = state?.operation_chain.at(-1) ?? null;
    const object = objects.find((each) => each.name === now?.business_object);
    const focused = this.#area.contains(document.activeElement) ? document.activeElement.dataset.part : null;
    this.#area.replaceChildren(...[
      roles.length ? this.#choice("role", roles, localStorage.getItem(ROLE), text("noRole"), (role) => this.#choose(role)) : null,
      state ? this.#choice("object", objects.map((each) => each.name), now?.business_object, text("noObject"),
        (name) => this.#correct({ business_object: name })) : null,
      state?.current_customer_id ? element("button", {
        class: "chip", "aria-label": `${text("clear")}: ${state.current_customer_id}`,
        onclick: () => this.#correct({ current_customer_id: "" }),
      }, `${text("customer")} ${state.current_customer_id} ✕`) : null,
      object?.stages.length ? this.#stages(object.stages, now.operation_stage) : null,
    ].filter(Boolean));
    if (focused) this.#area.querySelector(`[data-part="${focused}"][aria-current], select[data-part="${focused}"]`)?.focus();
  }

  #choice(name, values, chosen, none, choose) {
    const options = ["", ...values].map((each) => element("option", { value: each, selected: each === (chosen ?? "") }, each || none));
    return element("label", { class: "choice" }, element("span", {}, text(name)),
      element("select", { "data-part": name, onchange: (event) => choose(event.target.value) }, ...options));
  }

  /** The stages in order: those behind, the current one, those ahead. A click sets the current one. */
  #stages(stages, current) {
    const at = stages.indexOf(current);
    return element("ol", { class: "stages", "aria-label": text("stages") }, ...stages.map((stage, index) => element("li",
      { class: at < 0 || index > at ? "ahead" : index < at ? "behind" : "now" },
      element("button", {
        "data-part": "stage", "aria-current": index === at ? "step" : null, title: text("setStage"),
        onclick: () => this.#correct({ operation_stage: stage }),
      }, stage))));
  }

  #choose(role) {
    if (role) localStorage.setItem(ROLE, role);
    else localStorage.removeItem(ROLE);
    this.#onRole();
  }

  async #correct(change) {
    try {
      this.#render(await call("PATCH", this.#path(), { body: { ...change, version: this.#state.version } }));
      showToast(text("corrected"), { seconds: 2 });
    } catch (problem) {
      // Another tab, or a turn, has changed it meanwhile: show what is true now.
      showToast(problem.message);
      this.#render(await call("GET", this.#path()));
    }
  }
}
