// The preferences of the user in a session.

import { call } from "./api.js";
import { byId, element, showDialog, showToast } from "./dom.js";
import { text } from "./texts.js";

const CHOICES = { verbosity: ["brief", "normal", "detailed"], tone: ["casual", "formal", "respectful"] };
const SHOWN = 3;
const LANGUAGES = { zh: "中文", en: "English" };

/** Show and change the preferences of a session; there are none before its first turn. */
export async function showPreferences(sessionId) {
  if (!sessionId) {
    showDialog(text("preferences"), text("close"), element("p", {}, text("afterFirst")));
    return;
  }
  const path = `api/v1/npc/sessions/${encodeURIComponent(sessionId)}`;
  const { preference } = await call("GET", path, { query: { max_messages: 1 } });
  render(preference, async (change) => {
    const answer = await call("PUT", `${path}/preference`, { body: change });
    showToast(text("saved"), { seconds: 2 });
    return answer.preference;
  });
}

function render(preference, save) {
  const fields = element("div", { class: "form" });
  const tags = element("div", { class: "tags" });
  const change = async (changes) => {
    try {
      show(await save(changes));
    } catch (problem) {
      showToast(problem.message);
    }
  };
  const show = (stored) => {
    showFields(fields, stored, change);
    showTags(tags, stored, change);
  };
  const tag = element("input", { maxlength: 40, "aria-label": text("addTag"), placeholder: text("addTag") });
  const add = (event) => {
    event.preventDefault();
    if (tag.value.trim()) change({ add_interest_tags: [tag.value.trim()] });
    tag.value = "";
  };
  show(preference);
  showDialog(text("preferences"), text("close"), fields,
    element("fieldset", {}, element("legend", {}, text("tags")), tags, element("form", { onsubmit: add }, tag)));
}

/** The fields of one value; one that the user set can be given up. The field that had the focus keeps it. */
function showFields(fields, preference, change) {
  const focused = fields.contains(document.activeElement) ? document.activeElement.dataset.field : null;
  const languages = preference.language in LANGUAGES ? LANGUAGES : { ...LANGUAGES, [preference.language]: preference.language };
  const choice = (name, values, shown) => {
    const label = text(name === "language" ? "answerLanguage" : name);
    return element("div", { class: "choice" }, element("label", {}, label, origin(preference.sources[name]),
      element("select", { "data-field": name, onchange: (event) => change({ [name]: event.target.value }) },
        ...values.map((value) => element("option", { value, selected: value === preference[name] }, shown(value))))),
    preference.chosen.includes(name) && element("button", {
      type: "button", class: "chip", "data-field": name, "aria-label": `${text("clear")}: ${label}`, onclick: () => change({ clear: [name] }),
    }, `${text("chosen")} ✕`));
  };
  fields.replaceChildren(...Object.entries(CHOICES).map(([name, values]) => choice(name, values, text)),
    choice("language", Object.keys(languages), (value) => languages[value]));
  if (focused) fields.querySelector(`[data-field="${focused}"]`).focus();
}

/** Where an inferred preference comes from: the turns, which a click shows. */
function origin(turns) {
  return turns?.length > 0 && element("span", { class: "facts" }, `${text("inferred")} `, ...turns.slice(-SHOWN).map((turn) =>
    element("button", { type: "button", class: "turn", onclick: () => showTurn(turn) }, text("turn").replace("#", turn.split("#")[1]))));
}

function showTurn(turn) {
  const row = document.querySelector(`[data-turn="${CSS.escape(turn)}"]`);
  if (!row) {
    showToast(text("earlierTurn"));
    return;
  }
  byId("dialog").close();
  row.tabIndex = -1;
  row.focus();
}

/** The tags as stored; what is being typed beside them stays. */
function showTags(tags, preference, change) {
  tags.replaceChildren(...preference.interest_tags.map((each) => element("p", {}, element("button", {
    class: "chip", "aria-label": `${text("clear")}: ${each}`, onclick: () => change({ remove_interest_tags: [each] }),
  }, `${each} ✕`), " ", origin(preference.sources[`interest_tags:${each}`]))));
}
