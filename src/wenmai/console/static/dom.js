// Elements made in code: text is text, so nothing that was stored can act.

import { text } from "./texts.js";

/** An element with attributes, listeners (`onclick` …) and children; null and empty children are left out. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => ![null, undefined, false, ""].includes(child)));
  return made;
}

/** An SVG element. */
export function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Fill an element with HTML that the service has rendered and sanitized; the only place where text is parsed. */
export function showHtml(within, html) {
  within.classList.add("rich");
  within.innerHTML = html;
}

/** A part of a dialog, with its heading. */
export function section(heading, ...content) {
  return element("section", {}, element("h3", {}, heading), ...content);
}

/** A table; the headings are keys of texts, and `classOf(cells)` may give a row a class. */
export function table(headings, rows, classOf = () => null) {
  return element("table", {},
    element("thead", {}, element("tr", {}, ...headings.map((each) => element("th", { scope: "col" }, text(each))))),
    element("tbody", {}, ...rows.map((cells) => element("tr", { class: classOf(cells) }, ...cells.map((each) => element("td", {}, each))))));
}

/** A part of a bar, as wide as its share. */
export function sized(part, share) {
  part.style.width = `${100 * share}%`;
  return part;
}

export const byId = (id) => document.getElementById(id);

/** Show the content in the dialog, with a heading and a button that closes it. */
export function showDialog(heading, closeLabel, ...content) {
  const dialog = byId("dialog");
  const close = element("button", { class: "icon", "aria-label": closeLabel, onclick: () => dialog.close() }, "✕");
  dialog.replaceChildren(
    element("header", {}, element("h2", { id: "dialog-heading" }, heading), close),
    element("div", { class: "content" }, ...content),
  );
  dialog.setAttribute("aria-labelledby", "dialog-heading");
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
}

/** Have a screen reader say something, such as a whole answer that was shown piece by piece. */
export function announce(words) {
  byId("announcer").textContent = words;
}

let toastTimer = 0;

/** Show a short message for some seconds, with an action if there is one. */
export function showToast(words, { seconds = 6, action = null, onAction = null } = {}) {
  const toast = byId("toast");
  const hide = () => toast.hidePopover();
  const button = action && element("button", { onclick: () => { hide(); onAction(); } }, action);
  toast.replaceChildren(element("span", {}, words), ...(button ? [button] : []));
  // Shown anew, so that it stands above a dialog that was opened meanwhile.
  toast.hidePopover();
  toast.showPopover();
  clearTimeout(toastTimer);
  toastTimer = setTimeout(hide, seconds * 1000);
}
