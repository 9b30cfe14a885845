// Sessions of one user or of all: found, opened with their messages and traces, exported, deleted; erasing a user.

import { byId, element, showDialog, showToast } from "../dom.js";
import { localized } from "../texts.js";
import { action, address, badge, card, confirmed, empty, facts, field, form, guarded, id, link, moment, number, pagedTable, select, submit, table } from "./parts.js";
import { get, saveAs, saveBlob, send } from "./request.js";
import { say } from "./texts.js";

const HOURS = { 24: "hours24", 168: "days7", 720: "days30" };
const PAGE = 50;
/** Sessions to examine in a request, and requests at once, where a filter leaves few. */
const EXAMINED = 150;
const REQUESTS = 60;

export async function showSessions(content, { user = "", npc_id = "", hours = "", title = "", session = "" }) {
  if (session) {
    await showSession(content, user, session);
    return;
  }
  const { versions } = await get("api/v1/personas");
  const personas = versions.map((each) => [each.npc_id, localized(each.value.name) || each.npc_id]);
  const filter = form("filters", async (values) => { location.hash = address("sessions", values); },
    field(say("user"), element("input", { name: "user", value: user, maxlength: 128, placeholder: say("everyone"), autocomplete: "off" })),
    field(say("title"), element("input", { name: "title", type: "search", value: title, maxlength: 60, autocomplete: "off" })),
    field(say("persona"), select("npc_id", [["", say("any")], ...personas], npc_id)),
    field(say("since"), select("hours", [["", say("any")], ...Object.entries(HOURS).map(([value, name]) => [value, say(name)])], hours)),
    submit(say("filter")));
  const list = user && !npc_id && !hours && !title ? ofUser(user) : ofAll({ user, npc_id, hours, title });
  await list.ready;
  content.replaceChildren(card(say("filter"), filter, user ? ofUserActions(user) : null), card(say("sessions"), user ? null : element("p", { class: "hint" }, say("unordered")), list.holder));
}

/** The sessions of a user, newest first. */
function ofUser(user) {
  return pagedTable(say("sessions"), [say("title"), say("created"), say("active"), say("expires"), say("usedTokens")], async (cursor) => {
    const page = await get("v1/sessions", { limit: PAGE, cursor }, user);
    return { next: page.next, rows: page.sessions.map((each) => [opening(user, each.session_id, each.title || each.first_question),
      moment(each.created_at), moment(each.updated_at), moment(each.expires_at), number(each.total_tokens_used)]) };
  }, { none: say("noSessions") });
}

/** The threads of all users, or those that a filter leaves. */
function ofAll({ user, npc_id, hours, title }) {
  const since = hours && new Date(Date.now() - Number(hours) * 3_600_000).toISOString();
  const filtered = npc_id || hours || title || user;
  const none = filtered ? say("noSessions") : say("noSessionsYet");
  return pagedTable(say("sessions"), [say("title"), say("user"), say("persona"), say("messages"), say("active")], async (cursor) => {
    const page = await get("v1/threads", { limit: filtered ? EXAMINED : PAGE, cursor, npc_id, since, title }, user);
    const newest = page.threads.sort((one, other) => other.active_at.localeCompare(one.active_at));
    return { next: page.next, rows: newest.map((each) => [opening(each.user_id, each.session_id, each.title),
      link(each.user_id, "sessions", { user: each.user_id }), each.npc_id, number(each.messages), moment(each.active_at)]) };
  }, { none, most: REQUESTS });
}

const opening = (user, session, title) => link(title || say("untitled"), "sessions", { user, session });

function ofUserActions(user) {
  return element("div", { class: "buttons" }, link(say("memoryOf"), "memory", { user }), link(say("traces"), "traces", { user }),
    action(say("export"), () => saveAs(`v1/users/${id(user)}/export`, `${user}.jsonl`, { query: { traces: "true" } })),
    action(`${say("erase")}…`, async () => confirmed(`${say("erase")}: ${user}`, say("eraseWhy"), say("erase"), () => erase(user), user), "danger"));
}

async function erase(user) {
  const receipt = await send("DELETE", `v1/users/${id(user)}`);
  const file = new Blob([JSON.stringify(receipt, null, 2)], { type: "application/json" });
  byId("dialog").addEventListener("close", () => { location.hash = address("sessions"); }, { once: true });
  showDialog(say("receipt"), say("close"),
    facts([[say("user"), receipt.user_id], ["id", receipt.erasure_id], [say("finished"), moment(receipt.finished_at)],
      [say("receiptLeft"), number(receipt.left)], [say("signature"), receipt.signature || say("unsigned")]]),
    table(say("receipt"), [say("what"), say("where"), say("count"), say("left")], receipt.erased.map((each) => [each.what, each.where, number(each.count), number(each.left)])),
    element("ul", {}, ...[...receipt.checked, ...receipt.later].map((each) => element("li", {}, each))),
    action(say("download"), async () => saveBlob(file, `${receipt.erasure_id}.json`)));
}

async function showSession(content, user, session) {
  const path = `v1/sessions/${id(session)}`;
  const [record, { traces }] = await Promise.all([get(path, {}, user), get("api/v1/npc/traces", { session_id: session, limit: 200 }, user)]);
  const traceOf = new Map(traces.map((each) => [`${each.npc_id}#${each.turn_id}`, each]));
  const gone = async () => {
    await send("DELETE", path, { user });
    location.hash = address("sessions", { user });
    showToast(say("deleted"));
  };
  const list = element("ol", { class: "messages" });
  const older = element("button", { type: "button", class: "more" }, say("older"));
  let before = null;
  const load = async () => {
    const page = await get(`${path}/messages`, { limit: PAGE, before }, user);
    list.prepend(...page.messages.map((each) => messageItem(each, traceOf.get(`${each.npc_id}#${each.turn_id}`), user)));
    before = page.next;
    older.hidden = !before;
  };
  older.addEventListener("click", () => guarded(load, older));
  await load();
  content.replaceChildren(
    card(record.title || record.first_question || say("untitled"),
      facts([[say("user"), link(record.user_id, "sessions", { user: record.user_id })], [say("session"), record.session_id],
        [say("persona"), record.threads.map((each) => `${each.npc_id} (${each.message_count})`).join(", ")], [say("created"), moment(record.created_at)],
        [say("expires"), moment(record.expires_at)], [say("usedTokens"), number(record.total_tokens_used)], [say("cost"), `$${number(record.total_cost_usd, 4)}`]]),
      element("div", { class: "buttons" }, link(say("openMemory"), "memory", { user, session }), link(say("traces"), "traces", { user, session }),
        action(say("export"), () => saveAs(`${path}/export`, `${session}.jsonl`, { user })),
        action(`${say("delete")}…`, async () => confirmed(say("deleteSession"), say("deleteSessionWhy"), say("delete"), gone), "danger"))),
    card(say("messages"), older, list, list.children.length ? null : empty(say("noMessages"))),
  );
}

function messageItem(message, trace, user) {
  const shown = trace && message.role === "assistant";
  return element("li", { class: message.role }, element("p", { class: "by" },
    element("strong", {}, say(`${message.role}_role`)), ` ${message.role === "user" ? "" : message.npc_id} `, moment(message.timestamp),
    message.completed ? null : badge(say("unfinished"), "warn"),
    shown ? badge(say(trace.policy_mode), `mode-${trace.policy_mode}`) : null,
    shown ? link(say("trace"), "traces", { user, trace: trace.trace_id }) : null), element("p", { class: "text" }, message.content));
}
