// The chat page: who is asked, which conversation, and what it takes to ask.

import { call, useKey } from "./api.js";
import { Assistant } from "./assistant.js";
import { Conversation } from "./conversation.js";
import { byId, element, showDialog, showToast } from "./dom.js";
import { portrait } from "./portrait.js";
import { showPreferences } from "./preferences.js";
import { SessionList } from "./sessions.js";
import { localized, switchLanguage, text, translatePage } from "./texts.js";

let personas = [];
let ready = null;
let personaId = localStorage.getItem("wenmai.persona");
const personaOf = (id) => personas.find((each) => each.npc_id === id);

const conversation = new Conversation({ onSession: (id) => show(id, { opened: true }), personaOf });
const assistant = new Assistant({ onRole: () => guarded(() => (conversation.sessionId ? showAssistant() : show(null))) });
const showAssistant = () => assistant.show(personaId, conversation.sessionId);
const sessions = new SessionList({ onOpen: (id) => show(id), onGone: () => show(null) });

/** Show a session, or a new conversation; `opened` if its messages are there already. */
async function show(id, { opened = false } = {}) {
  sessions.current = id;
  history.replaceState(null, "", id ? `#${encodeURIComponent(id)}` : location.pathname + location.search);
  toggleSidebar(false);
  if (opened) await sessions.load();
  else if (id) choose((await conversation.open(id)) ?? personaId);
  else await begin(personaOf(personaId));
  sessions.render();
  await showAssistant();
}

/** A new conversation: the greeting of a persona, and questions to begin with. */
async function begin(persona) {
  conversation.begin(persona);
  const questions = await assistant.quickQuestions(persona?.npc_id);
  if (!conversation.sessionId) conversation.followUps(questions);
}

function choose(id) {
  personaId = personaOf(id) ? id : personas[0]?.npc_id;
  localStorage.setItem("wenmai.persona", personaId);
  const focused = byId("personas").contains(document.activeElement);
  byId("personas").replaceChildren(...personas.map((each) => {
    const pick = () => guarded(async () => {
      choose(each.npc_id);
      if (!conversation.sessionId) await begin(each);
      await showAssistant();
    });
    const chosen = each.npc_id === personaId;
    return element("button", {
      role: "radio", "aria-checked": String(chosen), tabindex: chosen ? 0 : -1, title: localized(each.value.summary), onclick: pick,
    }, portrait(each.npc_id), element("span", {}, localized(each.value.name)));
  }));
  if (focused) byId("personas").querySelector("[aria-checked=true]").focus();
}

async function submit(query) {
  const asked = query.trim();
  if (!asked || byId("send").hidden) return;
  byId("question").value = "";
  fit();
  await ready;
  await guarded(() => conversation.ask({
    query: asked, npc_id: personaId, incognito: byId("incognito").checked, role: assistant.roleFor(personaId),
  }));
}

/** Run something; a missing or refused key asks for one, other failures are shown. */
async function guarded(work) {
  try {
    await work();
  } catch (problem) {
    if (problem.status === 401) signIn();
    else if (problem.status === 404 && location.hash) await show(null);
    else showToast(problem.message);
  }
}

function signIn() {
  const input = element("input", { type: "password", autofocus: true, required: true, autocomplete: "off", placeholder: "wmk_…" });
  const enter = async (event) => {
    event.preventDefault();
    useKey(input.value.trim());
    byId("dialog").close();
    ready = guarded(start);
    await ready;
  };
  showDialog(text("keyNeeded"), text("close"), element("form", { onsubmit: enter },
    element("label", {}, text("key"), input), element("button", { class: "primary" }, text("signIn"))));
}

function fit() {
  const question = byId("question");
  question.style.height = "auto";
  question.style.height = `${Math.min(question.scrollHeight, 180)}px`;
}

function switchTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  localStorage.setItem("wenmai.theme", document.documentElement.dataset.theme);
}

/** On a narrow page the list lies above the rest, which cannot be reached meanwhile. */
function toggleSidebar(open) {
  if (document.body.classList.toggle("sidebar-open", open) !== document.querySelector("main").inert) {
    document.querySelector("main").inert = open;
    byId(open ? "close-sidebar" : "open-sidebar").focus();
  }
}

function showIncognito() {
  const incognito = byId("incognito").checked;
  document.body.classList.toggle("incognito", incognito);
  byId("question").placeholder = text(incognito ? "incognitoHint" : "question");
}

function translate() {
  translatePage();
  showIncognito();
  byId("language").textContent = text("languageMark");
}

async function start() {
  const found = await call("GET", "api/v1/personas", { query: { limit: 100 } });
  personas = found.versions;
  await assistant.load();
  choose(personaId);
  await sessions.load();
  const id = decodeURIComponent(location.hash.slice(1));
  const answering = byId("send").hidden;
  if (!answering && (conversation.sessionId !== id || !id)) await show(id || null);
}

const saved = localStorage.getItem("wenmai.theme");
if (saved) document.documentElement.dataset.theme = saved;
translate();
byId("language").addEventListener("click", () => { switchLanguage(); translate(); ready = guarded(start); });
byId("theme").addEventListener("click", switchTheme);
byId("new-talk").addEventListener("click", () => { show(null); byId("question").focus(); });
byId("open-sidebar").addEventListener("click", () => toggleSidebar(true));
byId("close-sidebar").addEventListener("click", () => toggleSidebar(false));
byId("sidebar").addEventListener("keydown", (event) => { if (event.key === "Escape") toggleSidebar(false); });
byId("personas").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const at = personas.findIndex((each) => each.npc_id === personaId);
  byId("personas").children[(at + step + personas.length) % personas.length].click();
});
byId("incognito").addEventListener("change", showIncognito);
byId("preferences").addEventListener("click", () => guarded(() => showPreferences(conversation.sessionId)));
byId("composer").addEventListener("submit", (event) => { event.preventDefault(); submit(byId("question").value); });
byId("composer").addEventListener("ask", (event) => submit(event.detail));
byId("question").addEventListener("input", fit);
byId("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    submit(event.target.value);
  }
});
addEventListener("hashchange", () => guarded(() => show(decodeURIComponent(location.hash.slice(1)) || null)));
ready = guarded(start);
