// The console: which page is shown, for which scope and with which key.

import { useKey } from "../api.js";
import { byId, element, showDialog } from "../dom.js";
import { switchLanguage } from "../texts.js";
import { showAudit } from "./audit.js";
import { showEvidence } from "./evidence.js";
import { showMemory } from "./memory.js";
import { showOverview } from "./overview.js";
import { action, address, empty, field, form, submit } from "./parts.js";
import { currentScope, useScope } from "./request.js";
import { showSessions } from "./sessions.js";
import { say } from "./texts.js";
import { showTraces } from "./traces.js";
import { showVersions } from "./versions.js";

const PAGES = {
  overview: showOverview, sessions: showSessions, memory: showMemory, traces: showTraces, versions: showVersions,
  evidence: showEvidence, audit: showAudit,
};

/** The page that the address names, with its parameters. */
function asked() {
  const [page, query = ""] = location.hash.slice(1).split("?");
  return [Object.hasOwn(PAGES, page) ? page : "overview", Object.fromEntries(new URLSearchParams(query))];
}

async function show() {
  const [page, parameters] = asked();
  for (const each of document.querySelectorAll("#pages a")) {
    if (each.dataset.page === page) {
      each.setAttribute("aria-current", "page");
      each.scrollIntoView({ inline: "center", block: "nearest" });
    } else each.removeAttribute("aria-current");
  }
  document.title = `${say(page)} · Wenmai`;
  const content = element("div", { class: "page" });
  byId("view").replaceChildren(element("h1", {}, say(page)), content);
  try {
    await PAGES[page](content, parameters);
  } catch (problem) {
    if (!content.isConnected) return;
    if (problem.status === 401) signIn();
    content.replaceChildren(trouble(problem));
  }
}

function trouble(problem) {
  const forbidden = problem.status === 403 || problem.status === 401;
  return element("section", { class: "card trouble", role: "alert" },
    element("h2", {}, say(problem.status === 401 ? "keyNeeded" : forbidden ? "missingRight" : "failed")), empty(problem.message),
    element("div", { class: "buttons" }, action(say("again"), show), forbidden ? action(say("otherKey"), async () => signIn()) : null));
}

function signIn() {
  const input = element("input", { type: "password", required: true, autocomplete: "off", placeholder: "wmk_…" });
  showDialog(say("keyNeeded"), say("close"), form("form", async () => {
    useKey(input.value.trim());
    byId("dialog").close();
    await show();
  }, field(say("key"), input), submit(say("signIn"))));
}

function chooseScope() {
  const { tenant, site } = currentScope();
  const input = (name, value) => field(say(name), element("input", { name, value, maxlength: 128, placeholder: say("scopeHint"), autocomplete: "off" }));
  showDialog(say("scope"), say("close"), form("form", async (values) => {
    useScope(values);
    byId("dialog").close();
    frame();
    await show();
  }, input("tenant", tenant), input("site", site), submit(say("apply"))));
}

function switchTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  localStorage.setItem("wenmai.theme", document.documentElement.dataset.theme);
}

/** What surrounds every page. */
function frame() {
  document.documentElement.lang = say("languageMark") === "EN" ? "zh" : "en";
  byId("skip").textContent = say("skip");
  byId("pages").setAttribute("aria-label", say("pages"));
  byId("pages").replaceChildren(...Object.keys(PAGES).map((page) => element("a", { href: address(page), "data-page": page }, say(page))));
  const { tenant, site } = currentScope();
  const tool = (label, mark, onclick) => element("button", { "aria-label": label, title: label, onclick }, mark);
  byId("tools").replaceChildren(
    element("button", { class: "scope", onclick: chooseScope, title: say("scope") }, `${say("scope")}: ${[tenant, site].filter(Boolean).join(" / ") || "–"}`),
    tool(say("otherLanguage"), say("languageMark"), () => { switchLanguage(); frame(); show(); }),
    tool(say("theme"), "◐", switchTheme),
    element("a", { href: "." }, say("chat")),
  );
}

const saved = localStorage.getItem("wenmai.theme");
if (saved) document.documentElement.dataset.theme = saved;
byId("skip").addEventListener("click", (event) => { event.preventDefault(); byId("view").focus(); });
addEventListener("hashchange", async () => {
  byId("dialog").close();
  scrollTo(0, 0);
  await show();
  if (!byId("dialog").open) byId("view").focus({ preventScroll: true });
});
frame();
show();
