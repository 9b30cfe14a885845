// One conversation: its messages, and a turn while it is answered.

import { Refused, ask } from "./api.js";
import { Bubble } from "./bubble.js";
import { announce, byId, element, showToast } from "./dom.js";
import { messagesOf, newestMessage, ratingsOf } from "./messages.js";
import { localized, text } from "./texts.js";

const POLL_SECONDS = 1;
const POLLS = 90;

export class Conversation {
  #sessionId = null;
  #before = null;
  #turn = null;
  #answers = new Map();
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
    const page = await messagesOf(id);
    if (this.#sessionId !== id) return null;
    this.#before = page.next;
    this.#render(page.messages);
    this.area.scrollTop = this.area.scrollHeight;
    this.#showRatings();
    const last = page.messages.at(-1);
    if (last && !last.completed) this.#awaitAnswer(id);
    return last?.npc_id ?? null;
  }

  #leave(id) {
    this.#turn?.abort();
    this.#sessionId = id;
    this.#before = null;
    this.#answers.clear();
    this.area.replaceChildren();
    this.followUps([]);
  }

  /** Mark the feedback on the answers that are shown. */
  async #showRatings() {
    try {
      for (const [traceId, rating] of await ratingsOf(this.#sessionId)) this.#answers.get(traceId)?.rated(rating);
    } catch (problem) {
      showToast(problem.message);
    }
  }

  #render(messages) {
    const rows = messages.filter((each) => each.role === "user" || each.role === "assistant")
      .map((each, index, all) => this.#stored(each, all[index - 1]));
    const older = this.#before && element("button", { class: "older", onclick: () => this.#loadOlder(older) }, text("older"));
    this.area.prepend(...(older ? [older] : []), ...rows);
  }

  async #loadOlder(button) {
    button.disabled = true;
    const page = await messagesOf(this.#sessionId, { before: this.#before });
    this.#before = page.next;
    const height = this.area.scrollHeight;
    button.remove();
    this.#render(page.messages);
    this.#showRatings();
    this.area.scrollTop += this.area.scrollHeight - height;
  }

  /** A stored message; an answer can be asked for again if its question stands before it. */
  #stored(message, before) {
    const bubble = this.#bubble(message.role, message.npc_id, message.content);
    bubble.row.dataset.turn = `${message.npc_id}#${message.turn_id}`;
    if (message.html) bubble.format(message.html);
    if (message.role === "assistant") {
      const { trace_id: traceId, policy_mode: mode, evidence_ids: cited = [] } = message.metadata ?? {};
      if (!message.completed) bubble.note(text("unfinished"), "pending");
      else {
        const again = before?.role === "user" ? () => submit(before.content) : null;
        bubble.finish({ traceId, mode, citations: cited.map((id) => ({ evidence_id: id })), again });
      }
      this.#answers.set(traceId, bubble);
    }
    return bubble.row;
  }

  /** After a refresh in the middle of an answer: show it when it is complete. */
  async #awaitAnswer(id) {
    this.area.lastElementChild?.querySelector(".note")?.replaceChildren(text("resumed"));
    for (let poll = 0; poll < POLLS; poll += 1) {
      await new Promise((resolve) => setTimeout(resolve, POLL_SECONDS * 1000));
      if (this.#sessionId !== id || this.#turn) return;
      const last = await newestMessage(id);
      if (last?.completed && this.#sessionId === id) {
        this.area.lastElementChild.replaceWith(this.#stored(last));
        return;
      }
    }
  }

  #bubble(role, personaId, content) {
    const bubble = new Bubble(role, role === "assistant" ? { personaId, persona: this.personaOf(personaId) } : {});
    bubble.show(content);
    return bubble;
  }

  /** Ask with the fields of a turn; the answer appears as it comes. */
  async ask(body) {
    this.followUps([]);
    const question = this.#bubble("user", null, body.query);
    const bubble = this.#bubble("assistant", body.npc_id, "");
    bubble.row.setAttribute("aria-busy", "true");
    this.area.append(question.row, bubble.row);
    bubble.row.scrollIntoView({ block: "end" });
    const turn = new AbortController();
    this.#turn = turn;
    this.#busy(true);
    const retry = () => { question.row.remove(); bubble.row.remove(); this.ask(body); };
    try {
      const done = await this.#answered(body, bubble, turn);
      question.row.dataset.turn = `${done.npc_id}#${done.turn_id}`;
      announce(done.answer_text);
      await this.#format(bubble, done);
      bubble.finish({ traceId: done.trace_id, mode: done.policy_mode, citations: done.citations, degraded: done.degraded, again: () => submit(body.query) });
      if (!this.#turnIsOver(turn)) {
        this.followUps(done.followup_questions);
        this.area.scrollTop = this.area.scrollHeight;
        this.#onSession(done.session_id);
      }
    } catch (problem) {
      if (turn.signal.aborted) bubble.note(text("stopped"), "pending");
      else bubble.note(`${text("failed")}: ${problem.message}`, "error");
      bubble.offer({ again: retry });
      bubble.row.scrollIntoView({ block: "nearest" });
      if (problem instanceof Refused && problem.status === 401) throw problem;
    } finally {
      bubble.row.removeAttribute("aria-busy");
      if (this.#turn === turn) {
        this.#turn = null;
        this.#busy(false);
      }
    }
  }

  /** The whole answer; what is there of it is shown meanwhile. */
  async #answered(body, bubble, turn) {
    let answered = "";
    const show = (words) => {
      answered = words;
      bubble.show(words);
      const { scrollHeight, scrollTop, clientHeight } = this.area;
      if (scrollHeight - scrollTop - clientHeight < 200) this.area.scrollTop = scrollHeight;
    };
    const done = await ask({ ...body, session_id: this.#sessionId, stream: true }, {
      signal: turn.signal,
      onRetry: () => { show(""); showToast(text("retrying")); },
      onEvent: (name, data) => {
        if (name === "start" && !this.#turnIsOver(turn)) this.#sessionId = data.session_id;
        else if (name === "token") show(answered + data.text);
        else if (name === "replace") show(data.text);
      },
    });
    show(done.answer_text);
    return done;
  }

  /** The answer as the service renders it; what was streamed stays if that cannot be read. */
  async #format(bubble, done) {
    const answer = await newestMessage(done.session_id, { npc_id: done.npc_id });
    if (answer?.html && answer.turn_id === done.turn_id) bubble.format(answer.html);
  }

  #turnIsOver(turn) {
    return this.#turn !== turn;
  }

  #busy(busy) {
    byId("send").hidden = busy;
    byId("stop").hidden = !busy;
    if (!busy) byId("question").focus({ preventScroll: true });
  }

  followUps(questions) {
    byId("follow-ups").replaceChildren(...questions.map((question) =>
      element("button", { type: "button", class: "chip", onclick: () => submit(question) }, question)));
  }
}

/** Ask what is not in the composer, as if it were. */
function submit(question) {
  byId("composer").dispatchEvent(new CustomEvent("ask", { detail: question }));
}
