// The parts that the console's pages are made of.

import { byId, element, showDialog, showToast } from "../dom.js";
import { language } from "../texts.js";
import { say } from "./texts.js";

export const id = encodeURIComponent;

/** A time as people read it, with the exact one at hand. */
export function moment(value) {
  if (!value) return "–";
  const shown = new Date(value).toLocaleString(language(), { dateStyle: "medium", timeStyle: "short" });
  return element("time", { datetime: value, title: value }, shown);
}

export const number = (value, digits = 0) => value.toLocaleString(language(), { maximumFractionDigits: digits });

/** A number of seconds as people say it. */
export function duration(seconds) {
  const [size, unit] = [[86_400, "day"], [3_600, "hour"], [60, "minute"], [1, "second"]].find(([each]) => seconds >= each) ?? [1, "second"];
  return (seconds / size).toLocaleString(language(), { style: "unit", unit, unitDisplay: "long", maximumFractionDigits: 0 });
}

/** The address of a page of the console. */
export const address = (page, query = {}) => {
  const given = Object.entries(query).filter(([, value]) => value);
  return `#${page}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
};

export const link = (label, page, query) => element("a", { href: address(page, query) }, label);

export const badge = (label, kind = "") => element("span", { class: `badge ${kind}` }, label);

export const card = (heading, ...content) => element("section", { class: "card" }, element("h2", {}, heading), ...content);

export const empty = (text) => element("p", { class: "empty" }, text);

export const facts = (rows) => element("dl", { class: "facts" }, ...rows.filter(([, value]) => value !== "" && value !== null && value !== undefined)
  .flatMap(([label, value]) => [element("dt", {}, label), element("dd", {}, value instanceof Node ? value : String(value))]));

/** A few numbers that matter, side by side. */
export const figures = (rows) => element("dl", { class: "figures" }, ...rows.map(([label, value]) =>
  element("div", {}, element("dt", {}, label), element("dd", {}, value))));

const row = (headings, cells) => element("tr", {}, ...cells.map((value, at) =>
  element("td", { "data-label": headings[at] }, value instanceof Node ? value : String(value ?? ""))));

/** A table that scrolls by itself where it is too wide. */
export function table(label, headings, rows) {
  const body = element("tbody", {}, ...rows.map((cells) => row(headings, cells)));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, element("table", {},
    element("thead", {}, element("tr", {}, ...headings.map((each) => element("th", { scope: "col" }, each)))), body));
}

/** The numbers of a chart, on demand. */
export const numbers = (label, headings, rows) => element("details", {}, element("summary", {}, say("table")), table(label, headings, rows));

export const field = (label, input, kind = "") => element("label", { class: `field ${kind}` }, element("span", {}, label), input);

export const select = (name, options, chosen = "") => element("select", { name }, ...options.map(([value, label]) =>
  element("option", { value, selected: value === chosen }, label)));

/** A form of fields; `onSubmit(values, form)` when it is sent. */
export function form(kind, onSubmit, ...content) {
  const made = element("form", { class: kind, onsubmit: (event) => {
    event.preventDefault();
    guarded(() => onSubmit(Object.fromEntries(new FormData(made)), made), made.querySelector("button"));
  } }, ...content);
  return made;
}

export const submit = (label) => element("button", { class: "primary" }, label);

/** Run what a button starts: it is disabled meanwhile, and a failure is shown. */
export async function guarded(work, button = null) {
  if (button) button.disabled = true;
  try {
    await work();
  } catch (problem) {
    showToast(problem.status === 403 ? `${say("missingRight")}: ${problem.message}` : problem.message);
  } finally {
    if (button) button.disabled = false;
  }
}

export const action = (label, work, kind = "") => element("button", {
  class: kind, type: "button", onclick: (event) => guarded(work, event.currentTarget),
}, label);

/** A table that is loaded page by page: `load(cursor)` gives `{rows, next}`; `least` rows at once if there are so many. */
export function pagedTable(label, headings, load, { none, least = 25, most = 20 } = {}) {
  const shown = table(label, headings, []);
  const body = shown.querySelector("tbody");
  const note = element("p", { class: "empty", role: "status" });
  const more = element("button", { type: "button", class: "more" }, say("more"));
  const holder = element("div", {}, shown, note, more);
  let cursor = null;
  const load_more = async () => {
    const before = body.rows.length;
    more.hidden = true;
    note.textContent = say("loading");
    try {
      for (let page = 0; page < most; page += 1) {
        const { rows, next } = await load(cursor);
        body.append(...rows.map((cells) => row(headings, cells)));
        cursor = next;
        if (!cursor || body.rows.length - before >= least) break;
      }
    } finally {
      more.hidden = !cursor;
      shown.hidden = !body.rows.length;
      note.textContent = body.rows.length ? "" : cursor ? say("stillMore") : none;
    }
  };
  more.addEventListener("click", () => guarded(load_more, more));
  return { holder, ready: load_more() };
}

/** Ask before something is done that cannot be undone; `typed` must be typed in. */
export function confirmed(question, why, label, work, typed = null) {
  const input = typed && element("input", { required: true, autocomplete: "off", name: "typed" });
  const made = form("form", async () => {
    if (typed && input.value.trim() !== typed) return;
    await work();
    if (byId("dialog-heading")?.textContent === question) byId("dialog").close();
  }, element("p", {}, why), typed && field(say("typeUser"), input), element("div", { class: "buttons" },
    element("button", { class: "danger" }, label), element("button", { type: "button", onclick: () => byId("dialog").close() }, say("cancel"))));
  showDialog(question, say("close"), made);
}
