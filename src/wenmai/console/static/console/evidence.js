// Evidence: files uploaded, passages browsed by source and deleted, a search tried out with its scores.

import { byId, element, showDialog, showToast } from "../dom.js";
import { action, address, badge, card, confirmed, empty, facts, field, form, id, link, number, pagedTable, submit, table } from "./parts.js";
import { get, readiness, send } from "./request.js";
import { say } from "./texts.js";

const PAGE = 30;
const POLL_SECONDS = 1;
const TYPES = { md: "text/markdown", txt: "text/plain", jsonl: "application/jsonl", csv: "text/csv" };

export async function showEvidence(content, { source = "", passage = "" }) {
  const results = element("div", {});
  const uploaded = element("div", { role: "status" });
  const list = passages(source);
  const [{ versions }] = await Promise.all([get("api/v1/personas"), list.ready]);
  const domains = [...new Set(versions.flatMap((each) => each.value.domains ?? []))].sort();
  content.replaceChildren(
    card(say("trySearch"), searchForm(results), results),
    card(`${say("browse")}: ${source || say("allSources")}`, source ? element("div", { class: "buttons" }, link(say("allSources"), "evidence"),
      action(`${say("deleteSource")}…`, async () => confirmed(`${say("deleteSource")}: ${source}`, say("deleteSourceWhy"), say("delete"), () => remove({ source_ref: source })), "danger")) : null, list.holder),
    card(say("upload"), element("p", { class: "hint" }, say("fileHint")), uploadForm(uploaded, domains), uploaded),
  );
  if (passage) await open(passage, source);
}

function passages(source) {
  const headings = [say("title"), say("source"), say("domains"), say("answerLanguage"), say("verified"), say("effective")];
  return pagedTable(say("browse"), headings, async (cursor) => {
    const page = await get("api/v1/evidence", { source_ref: source, limit: PAGE, cursor });
    return { next: page.next, rows: page.evidence.map((each) => [link(each.title || each.evidence_id, "evidence", { source, passage: each.evidence_id }),
      each.source_ref ? link(each.source_ref, "evidence", { source: each.source_ref }) : "–", each.domains.join(", ") || "–", each.language || "–",
      each.verified ? say("yes") : badge(say("no"), "warn"), each.effective_date || "–"]) };
  }, { none: say("noEvidence") });
}

async function open(evidenceId, source) {
  const found = await get(`api/v1/evidence/${id(evidenceId)}`);
  const gone = async () => {
    await send("DELETE", `api/v1/evidence/${id(evidenceId)}`);
    showToast(say("deleted"));
    location.hash = address("evidence", { source });
  };
  byId("dialog").addEventListener("close", () => {
    if (location.hash.includes("passage=")) history.replaceState(null, "", address("evidence", { source }));
  }, { once: true });
  showDialog(found.title || found.evidence_id, say("close"), element("p", { class: "text" }, found.text),
    facts([["id", found.evidence_id], [say("source"), found.source_ref], [say("domains"), found.domains.join(", ")], [say("answerLanguage"), found.language],
      [say("verified"), found.verified ? say("yes") : say("no")], [say("effective"), found.effective_date]]),
    element("div", { class: "buttons" }, action(`${say("delete")}…`, async () => confirmed(say("deletePassage"), say("deletePassageWhy"), say("delete"), gone), "danger")));
}

async function remove(query) {
  const { deleted } = await send("DELETE", "api/v1/evidence", { query });
  showToast(`${say("deleted")}: ${number(deleted)}`);
  location.hash = address("evidence");
}

/** The form; `domains` are those that personas speak about, of which a file whose passages name none needs one. */
function uploadForm(holder, domains) {
  const file = element("input", { type: "file", name: "file", required: true, accept: Object.keys(TYPES).map((each) => `.${each}`).join(",") });
  return form("filters", async ({ replace }, sent) => {
    const domain = [...sent.querySelectorAll("[name=domain]:checked")].map((each) => each.value);
    const chosen = file.files[0];
    const type = TYPES[chosen.name.split(".").pop().toLowerCase()] ?? "text/plain";
    const stages = ["stageReceived", "stageWords", "stageMeaning"].map((name) => element("li", {}, say(name)));
    const list = element("ol", { class: "upload" }, ...stages);
    begin(stages[0]);
    holder.replaceChildren(list);
    try {
      const result = await send("POST", "api/v1/evidence/files", { body: chosen, query: { name: chosen.name, domain, replace_source: replace ? "true" : "" }, extra: { "Content-Type": type } });
      finish(stages[0]);
      finish(stages[1], number(result.added + result.changed));
      holder.replaceChildren(list, ...report(result));
      followVectors(stages[2]).catch((problem) => stages[2].append(`: ${problem.message}`));
    } catch (problem) {
      holder.replaceChildren(element("p", { class: "note error" }, problem.message));
    }
  }, field(say("file"), file, "wide"),
  domains.length ? element("fieldset", { class: "choices wide" }, element("legend", {}, say("fileDomains")), ...domains.map((each) => checkbox("domain", each, each))) : "",
  checkbox("replace", "yes", say("replaceSource")), submit(say("upload")));
}

const checkbox = (name, value, label) => element("label", { class: "check" }, element("input", { type: "checkbox", name, value }), label);

/** A stage of an upload that has begun: how much of it is done, if that is known. */
function begin(stage, done = null, all = null) {
  stage.querySelector("progress")?.remove();
  stage.append(element("progress", { "aria-label": stage.firstChild.data, value: done, max: all }));
}

function finish(stage, count = "") {
  stage.querySelector("progress")?.remove();
  stage.className = "done";
  stage.append(count && `: ${count}`);
}

/** Show how many of the passages have their vectors, until all do or the page shows something else. */
async function followVectors(stage) {
  begin(stage);
  while (stage.isConnected) {
    await new Promise((resolve) => setTimeout(resolve, POLL_SECONDS * 1000));
    const { evidence } = await readiness();
    if (!evidence) {
      stage.replaceChildren(say("noEmbedder"));
      return;
    }
    if (evidence.embedded >= evidence.passages) {
      finish(stage, number(evidence.embedded));
      return;
    }
    begin(stage, evidence.embedded, evidence.passages);
  }
}

function report(result) {
  const counts = [["added", result.added], ["changed", result.changed], ["unchanged", result.unchanged], ["removed_", result.removed]];
  const bad = result.bad_lines.map((each) => [String(each.line), each.reason]);
  return [facts([[say("file"), result.file], ...counts.map(([name, value]) => [say(name), number(value)])]), ...result.warnings.map((each) => element("p", { class: "note" }, each)),
    ...(bad.length ? [element("h3", {}, `${say("badLines")} (${number(result.bad_line_count)})`), table(say("badLines"), [say("line"), say("reason")], bad)] : []),
    element("div", { class: "buttons" }, link(say("browse"), "evidence", { source: result.file }))];
}

function searchForm(holder) {
  return form("filters", async ({ query }) => {
    const { passages: found, degraded } = await send("POST", "api/v1/evidence/search", { body: { query, limit: 10 } });
    const rows = found.map((each) => [link(each.title || each.evidence_id, "evidence", { passage: each.evidence_id }), number(each.score, 3), each.text, each.source_ref || "–"]);
    holder.replaceChildren(degraded.length ? badge(`${say("degraded")}: ${degraded.join(", ")}`, "warn") : "",
      found.length ? table(say("trySearch"), [say("title"), say("score"), say("passage_text"), say("source")], rows) : empty(say("nothingFound")));
  }, field(say("query"), element("input", { name: "query", required: true, maxlength: 4000, autocomplete: "off" }), "wide"), submit(say("search")));
}
