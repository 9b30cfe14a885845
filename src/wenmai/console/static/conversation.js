// One conversation: its messages, and a turn while it is answered.

import { Refused, ask, call } from "./api.js";
import { byId, element, showDialog, showToast } from "./dom.js";
import { inspect } from "./inspector.js";
import { portrait } from "./portrait.js";
import { localized, text } from "./texts.js";

const PAGE = 50;
const POLL_SECONDS = 1;
const POLLS = 90;
const passages = new Map();

export class Conversation {
  #sessionId = null;
  #before = null;
  #turn = null;
  #onSession;

  /** `onSession(id)` when a turn has given the conversation an id or a title. */
  constructor({ onSession, personaOf }) {
    this.#onSession = onSession;
    this.personaOf = personaOf;
    this.area = byId("conversation");
    byId("stop").addEventListener("click", () => this.#turn?.abort());
  }

  get sessionId() {
    return this.#sessionId;
  }

  /** Show an empty conversation with the greeting of a persona. */
  begin(persona) {
    this.#leave(null);
    const greeting = localized(persona?.value.greetings)?.[0] ?? text("welcome");
    this.area.append(this.#bubble("assistant", persona?.npc_id, greeting).row);
    this.followUps([]);
  }

  /** Show a stored conversation; returns the persona of its last message. */
  async open(id) {
    this.#leave(id);
    const page = await this.#page(null);
    if (this.#sessionId !== id) return null;
    this.#before = page.next;
    this.#render(page.messages);
    this.area.scrollTop = this.area.scrollHeight;
    const last = page.messages.at(-1);
    if (last && !last.completed) this.#awaitAnswer(id);
    return last?.npc_id ?? null;
  }

  #leave(id) {
    this.#turn?.abort();
    this.#sessionId = id;
    this.#before = null;
    this.area.replaceChildren();
    this.followUps([]);
  }

  #page(before) {
    return call("GET", `v1/sessions/${encodeURIComponent(this.#sessionId)}/messages`, { query: { limit: PAGE, before } });
  }

  #render(messages) {
    const rows = messages.filter((each) => each.role !== "tool" && each.role !== "system").map((each) => this.#stored(each));
    const older = this.#before && element("button", { class: "older", onclick: () => this.#loadOlder(older) }, text("older"));
    this.area.prepend(...(older ? [older] : []), ...rows);
  }

  async #loadOlder(button) {
    button.disabled = true;
    const page = await this.#page(this.#before);
    this.#before = page.next;
    const height = this.area.scrollHeight;
    button.remove();
    this.#render(page.messages);
    this.area.scrollTop += this.area.scrollHeight - height;
  }

  #stored(message) {
    const bubble = this.#bubble(message.role, message.npc_id, message.content);
    if (message.role === "assistant") {
      const { trace_id: traceId, policy_mode: mode, evidence_ids: cited = [] } = message.metadata ?? {};
      if (!message.completed) bubble.note(text("unfinished"), "pending");
      else this.#finish(bubble, { traceId, mode, citations: cited.map((id) => ({ evidence_id: id })) });
    }
    return bubble.row;
  }

  /** After a refresh in the middle of an answer: show it when it is complete. */
  async #awaitAnswer(id) {
    this.area.lastElementChild?.querySelector(".note")?.replaceChildren(text("resumed"));
    for (let poll = 0; poll < POLLS; poll += 1) {
      await new Promise((resolve) => setTimeout(resolve, POLL_SECONDS * 1000));
      if (this.#sessionId !== id || this.#turn) return;
      const last = (await this.#page(null)).messages.at(-1);
      if (last?.completed && this.#sessionId === id) {
        this.area.lastElementChild.replaceWith(this.#stored(last));
        return;
      }
    }
  }

  #bubble(role, personaId, content) {
    const body = element("div", { class: "text" }, content);
    const below = element("div", { class: "below" });
    const persona = role === "assistant" ? this.personaOf(personaId) : null;
    const name = persona ? element("span", { class: "name" }, localized(persona.value.name)) : null;
    const row = element("article", { class: `message ${role}` },
      role === "assistant" ? portrait(personaId ?? "") : null,
      element("div", { class: "bubble" }, name, body, below));
    const note = (words, kind) => below.append(element("p", { class: `note ${kind}` }, words));
    return { row, body, below, note };
  }

  /** Ask; the answer appears as it comes. */
  async ask(query, personaId, incognito) {
    this.followUps([]);
    this.area.append(this.#bubble("user", null, query).row);
    const bubble = this.#bubble("assistant", personaId, "");
    bubble.row.setAttribute("aria-busy", "true");
    bubble.body.classList.add("thinking");
    bubble.body.append(element("span", { class: "hidden" }, text("thinking")));
    this.area.append(bubble.row);
    bubble.row.scrollIntoView({ block: "end" });
    const turn = new AbortController();
    this.#turn = turn;
    this.#busy(true);
    let answered = "";
    const show = (words) => {
      answered = words;
      bubble.body.classList.toggle("thinking", !words);
      bubble.body.textContent = words;
      const { scrollHeight, scrollTop, clientHeight } = this.area;
      if (scrollHeight - scrollTop - clientHeight < 200) this.area.scrollTop = scrollHeight;
    };
    const again = () => { bubble.row.remove(); this.area.lastElementChild?.remove(); this.ask(query, personaId, incognito); };
    try {
      const done = await ask(
        { npc_id: personaId, query, session_id: this.#sessionId, incognito, stream: true },
        {
          signal: turn.signal,
          onRetry: () => { show(""); showToast(text("retrying")); },
          onEvent: (name, data) => {
            if (name === "start" && !this.#turnIsOver(turn)) this.#sessionId = data.session_id;
            else if (name === "token") show(answered + data.text);
            else if (name === "replace") show(data.text);
          },
        },
      );
      show(done.answer_text);
      this.#finish(bubble, { traceId: done.trace_id, mode: done.policy_mode, citations: done.citations, again });
      if (!this.#turnIsOver(turn)) {
        this.followUps(done.followup_questions);
        this.area.scrollTop = this.area.scrollHeight;
        this.#onSession(done.session_id);
      }
    } catch (problem) {
      bubble.body.classList.remove("thinking");
      if (turn.signal.aborted) bubble.note(text("stopped"), "pending");
      else {
        bubble.note(`${text("failed")}: ${problem.message}`, "error");
        this.#actions(bubble, { again });
      }
      if (problem instanceof Refused && problem.status === 401) throw problem;
    } finally {
      bubble.row.removeAttribute("aria-busy");
      if (this.#turn === turn) {
        this.#turn = null;
        this.#busy(false);
      }
    }
  }

  #turnIsOver(turn) {
    return this.#turn !== turn;
  }

  #busy(busy) {
    byId("send").hidden = busy;
    byId("stop").hidden = !busy;
    if (!busy) byId("question").focus({ preventScroll: true });
  }

  #finish(bubble, { traceId, mode, citations, again = null }) {
    if (mode === "conservative" || mode === "refuse") bubble.note(text(mode), mode);
    if (citations?.length) bubble.below.append(citationList(citations));
    this.#actions(bubble, { traceId, again });
  }

  #actions(bubble, { traceId = null, again = null }) {
    const copy = async () => { await navigator.clipboard.writeText(bubble.body.textContent); showToast(text("copied"), { seconds: 2 }); };
    bubble.below.append(element("div", { class: "tools" },
      element("button", { onclick: copy }, text("copy")),
      again && element("button", { onclick: again }, text("again")),
      traceId && element("button", { onclick: () => inspect(traceId) }, text("inspect"))));
  }

  followUps(questions) {
    byId("follow-ups").replaceChildren(...questions.map((question) =>
      element("button", { type: "button", class: "chip", onclick: () => byId("composer").dispatchEvent(new CustomEvent("ask", { detail: question })) }, question)));
  }
}

function citationList(citations) {
  return element("ol", { class: "citations", "aria-label": text("source") }, ...citations.map((each) => {
    const button = element("button", { onclick: () => showPassage(each.evidence_id) }, each.title ?? "…");
    if (!each.title) passage(each.evidence_id).then((found) => { button.textContent = found.title; }, () => button.remove());
    return element("li", {}, button);
  }));
}

/** A passage, read once. */
function passage(id) {
  if (!passages.has(id)) {
    const path = id.split("/").map(encodeURIComponent).join("/");
    passages.set(id, call("GET", `api/v1/evidence/${path}`).catch((problem) => { passages.delete(id); throw problem; }));
  }
  return passages.get(id);
}

async function showPassage(id) {
  try {
    const found = await passage(id);
    showDialog(found.title, text("close"),
      element("p", { class: "source" }, found.source_ref),
      element("p", { class: "text" }, found.text),
      element("p", { class: "facts" }, [...found.domains, text(found.verified ? "verified" : "unverified")].join(" · ")));
  } catch (problem) {
    showToast(problem.message);
  }
}
