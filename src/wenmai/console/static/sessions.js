// The list of conversations: grouped by day, searched, renamed, exported, deleted with a moment to undo.

import { call, download } from "./api.js";
import { byId, element, showDialog, showToast } from "./dom.js";
import { language, text } from "./texts.js";

const PAGE = 100;
const SEARCHED = 500;
const UNDO_SECONDS = 6;

export class SessionList {
  #sessions = [];
  #next = null;
  #deleting = new Map();
  #onOpen;
  #onGone;

  /** `onOpen(id)` when one is chosen, `onGone(id)` when the one that is shown may be gone. */
  constructor({ onOpen, onGone }) {
    this.#onOpen = onOpen;
    this.#onGone = onGone;
    this.current = null;
    byId("search").addEventListener("input", () => { this.render(); this.#loadAll(); });
    byId("session-list").addEventListener("scroll", () => this.#loadMore());
    addEventListener("pagehide", () => { for (const id of this.#deleting.keys()) this.#delete(id, true); });
  }

  async load() {
    const page = await call("GET", "v1/sessions", { query: { limit: PAGE } });
    const known = new Set(page.sessions.map((each) => each.session_id));
    // What was scrolled to stays in the list.
    const older = this.#sessions.length > PAGE ? this.#sessions.filter((each) => !known.has(each.session_id)) : [];
    this.#sessions = [...page.sessions, ...older];
    if (!older.length) this.#next = page.next;
    this.render();
  }

  /** All conversations, so that a search finds the oldest too. */
  async #loadAll() {
    while (this.#next && byId("search").value.trim()) await this.#loadPage(SEARCHED);
  }

  async #loadMore() {
    const list = byId("session-list");
    if (!this.#next || list.scrollTop + list.clientHeight < list.scrollHeight - 300) return;
    await this.#loadPage(PAGE);
  }

  async #loadPage(limit) {
    const cursor = this.#next;
    this.#next = null;
    try {
      const page = await call("GET", "v1/sessions", { query: { limit, cursor } });
      this.#sessions.push(...page.sessions);
      this.#next = page.next;
    } catch (problem) {
      this.#next = cursor;
      showToast(problem.message);
      throw problem;
    }
    this.render();
  }

  render() {
    const wanted = byId("search").value.trim().toLowerCase();
    const shown = this.#sessions.filter(
      (each) => !this.#deleting.has(each.session_id) && this.#titleOf(each).toLowerCase().includes(wanted),
    );
    shown.sort((one, other) => other.updated_at.localeCompare(one.updated_at));
    const groups = grouped(shown);
    const list = byId("session-list");
    list.replaceChildren(
      ...[...groups].map(([day, sessions]) =>
        element("section", {}, element("h2", {}, day), element("ul", {}, ...sessions.map((each) => this.#item(each)))),
      ),
    );
    if (!shown.length) list.append(element("p", { class: "empty" }, text(wanted ? "nothingFound" : "noSessions")));
  }

  #titleOf(session) {
    return session.title || session.first_question || text("untitled");
  }

  #item(session) {
    const id = session.session_id;
    const title = this.#titleOf(session);
    const menu = [
      ["rename", "✎", () => this.#rename(session)],
      ["export", "⤓", () => this.#export(session)],
      ["delete", "✕", () => this.#deleteLater(session)],
    ];
    return element(
      "li",
      { "aria-current": id === this.current ? "true" : null },
      element("button", { class: "open", title, onclick: () => this.#onOpen(id) }, title),
      ...menu.map(([name, sign, onclick]) =>
        element("button", { class: "icon", title: text(name), "aria-label": `${text(name)}: ${title}`, onclick }, sign),
      ),
    );
  }

  #rename(session) {
    const input = element("input", { value: this.#titleOf(session), maxlength: 60, required: true });
    const save = async (event) => {
      event.preventDefault();
      const changed = await call("PATCH", `v1/sessions/${encodeURIComponent(session.session_id)}`, {
        body: { title: input.value.trim() },
      });
      session.title = changed.title;
      byId("dialog").close();
      this.render();
    };
    const form = element("form", { onsubmit: save },
      element("label", {}, text("title"), input), element("button", { class: "primary" }, text("save")));
    showDialog(text("rename"), text("close"), form);
    input.select();
  }

  async #export(session) {
    try {
      await download(`v1/sessions/${encodeURIComponent(session.session_id)}/export`, `${session.session_id}.jsonl`);
    } catch (problem) {
      showToast(problem.message);
    }
  }

  #deleteLater(session) {
    const id = session.session_id;
    const timer = setTimeout(() => this.#delete(id, false), UNDO_SECONDS * 1000);
    this.#deleting.set(id, timer);
    this.render();
    showToast(`${text("deleted")}: ${this.#titleOf(session)}`, {
      seconds: UNDO_SECONDS,
      action: text("undo"),
      onAction: () => {
        clearTimeout(timer);
        this.#deleting.delete(id);
        this.render();
      },
    });
    if (id === this.current) this.#onGone(id);
    byId("search").focus({ preventScroll: true });
  }

  async #delete(id, keepalive) {
    clearTimeout(this.#deleting.get(id));
    try {
      await call("DELETE", `v1/sessions/${encodeURIComponent(id)}`, { keepalive });
    } catch (problem) {
      if (problem.status !== 404) {
        showToast(problem.message);
        this.#deleting.delete(id);
        this.render();
        return;
      }
    }
    this.#deleting.delete(id);
    this.#sessions = this.#sessions.filter((each) => each.session_id !== id);
    this.render();
  }
}

function dayOf(session) {
  const date = new Date(session.updated_at);
  const days = Math.floor((new Date().setHours(0, 0, 0, 0) - new Date(date).setHours(0, 0, 0, 0)) / 86_400_000);
  if (days <= 0) return text("today");
  if (days === 1) return text("yesterday");
  return date.toLocaleDateString(language(), { year: "numeric", month: "long", day: "numeric" });
}

function grouped(sessions) {
  const groups = new Map();
  for (const each of sessions) {
    const day = dayOf(each);
    if (!groups.has(day)) groups.set(day, []);
    groups.get(day).push(each);
  }
  return groups;
}
