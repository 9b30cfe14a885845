// The passages that an answer quotes: a list below it, and each in the dialog.

import { call } from "./api.js";
import { element, showDialog, showToast } from "./dom.js";
import { text } from "./texts.js";

const passages = new Map();

/** The sources of an answer, numbered. */
export function citationList(citations) {
  return element("ol", { class: "citations", "aria-label": text("source") }, ...citations.map((each) => {
    const button = element("button", { onclick: () => showPassage(each.evidence_id) }, each.title ?? "…");
    if (!each.title) passage(each.evidence_id).then((found) => { button.textContent = found.title; }, () => button.remove());
    return element("li", {}, button);
  }));
}

/** The title of a passage, read where it is not known; nothing for one that is gone, whose id stands beside it. */
export function titleOf(id, known) {
  const shown = element("span", {}, known ?? "");
  if (!known) passage(id).then((found) => { shown.textContent = found.title; }, () => {});
  return shown;
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
