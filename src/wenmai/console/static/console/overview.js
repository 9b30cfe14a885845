// Tokens by day, policy modes, and the health of the service as it is now.

import { element } from "../dom.js";
import { language, localized } from "../texts.js";
import { bars, shares, stackedColumns } from "./charts.js";
import { action, badge, card, duration, empty, facts, field, figures, number, select, table } from "./parts.js";
import { get, getText, readiness } from "./request.js";
import { say } from "./texts.js";

const REFRESH_SECONDS = 5;
const MOST_PERSONAS = 20;
const MOST_TOPICS = 15;
const MODES = ["normal", "conservative", "refuse"];

export async function showOverview(content) {
  const health = element("div", { class: "stackable" });
  const usage = element("div", {});
  const turns = element("div", {});
  const topics = element("div", { class: "titled" });
  const first = innerWidth < 720 ? 7 : 30;
  const days = select("days", [7, 30, 90].map((each) => [String(each), `${each} ${say("days")}`]), String(first));
  days.addEventListener("change", () => { showUsage(usage, Number(days.value)); showTopics(topics, Number(days.value)); });
  await Promise.all([showUsage(usage, first), showTurns(turns), showTopics(topics, first)]);
  content.replaceChildren(
    card(say("tokensByDay"), field(say("period"), days, "inline"), usage),
    card(say("modes"), turns),
    card(say("topics"), topics),
    card(say("health"), health),
  );
  await showHealth(health);
  const timer = setInterval(() => {
    if (!content.isConnected) clearInterval(timer);
    else if (!document.hidden) showHealth(health);
  }, REFRESH_SECONDS * 1000);
}

async function showUsage(holder, days) {
  const from = new Date(Date.now() - (days - 1) * 86_400_000).toISOString().slice(0, 10);
  const { versions } = await get("api/v1/personas");
  const names = new Map(versions.slice(0, MOST_PERSONAS).map((each) => [each.npc_id, localized(each.value.name) || each.npc_id]));
  const usage = await get("v1/usage", { from, npc_id: [...names.keys()] });
  const total = usage.tenant;
  const series = [{ name: say("promptTokens"), kind: "tone-1" }, { name: say("completionTokens"), kind: "tone-2" }];
  const columns = usage.days.map((each) => [each.day, [each.tenant.prompt_tokens, each.tenant.completion_tokens]]);
  const budgets = usage.budgets.filter((each) => each.of !== "session");
  holder.replaceChildren(
    total.calls ? stackedColumns(say("tokensByDay"), columns, series) : empty(say("noModel")),
    figures([[say("calls"), number(total.calls)], [say("promptTokens"), number(total.prompt_tokens)],
      [say("completionTokens"), number(total.completion_tokens)], [say("cost"), `$${number(total.cost_usd, 4)}`]]),
    ...(total.calls ? [element("h3", {}, say("tokensByPersona")), byPersona(usage, names)] : []),
    ...(budgets.length ? [table(say("budgets"), [say("budgets"), say("used"), say("limit"), say("state_")],
      budgets.map((each) => [`${say(each.of)} (${each.measure})`, number(each.used, 4), number(each.limit, 4), badge(each.state, each.state)]))] : []),
  );
}

/** The passages that answers of the days cited, over the sessions examined so far. */
async function showTopics(holder, days) {
  const since = new Date(Date.now() - days * 86_400_000).toISOString();
  const counted = new Map();
  let examined = 0;
  const more = async (cursor) => {
    const page = await get("v1/topics", { since, cursor });
    examined += page.threads;
    for (const { evidence_id: topic, title, answers } of page.topics) {
      counted.set(topic, { title: title || topic, answers: (counted.get(topic)?.answers ?? 0) + answers });
    }
    const most = [...counted.values()].sort((one, other) => other.answers - one.answers).slice(0, MOST_TOPICS);
    holder.replaceChildren(element("p", { class: "hint" }, `${say("topicsHint")} ${say("examined")}: ${number(examined)}`),
      most.length ? bars(say("topics"), most.map((each) => [each.title, each.answers]), say("title"), say("answers")) : empty(say("noTopics")),
      page.next ? element("div", { class: "buttons" }, action(say("more"), () => more(page.next))) : "");
  };
  await more();
}

const tokens = (each) => each.prompt_tokens + each.completion_tokens;

/** Columns of the personas that were used, and of what no persona is charged with. */
function byPersona(usage, names) {
  const used = usage.personas.filter((each) => each.days.some((day) => day.calls));
  const series = [...used.map((each, at) => ({ name: names.get(each.npc_id), kind: `tone-${(at % 6) + 1}` })), { name: say("others"), kind: "tone-0" }];
  const columns = usage.days.map((day, at) => {
    const values = used.map((each) => tokens(each.days[at]));
    return [day.day, [...values, Math.max(0, tokens(day.tenant) - values.reduce((sum, value) => sum + value, 0))]];
  });
  return stackedColumns(say("tokensByPersona"), columns, series);
}

/** Samples of a metric in Prometheus' text format: `[labels, value]`. */
function samples(metrics, name) {
  const found = [];
  for (const line of metrics.split("\n")) {
    const match = line.startsWith(`${name}{`) && /\{(.*)\} (\S+)$/.exec(line);
    if (match) found.push([Object.fromEntries([...match[1].matchAll(/(\w+)="([^"]*)"/g)].map(([, key, value]) => [key, value])), Number(match[2])]);
  }
  return found;
}

async function showTurns(holder) {
  const metrics = await getText("metrics");
  const turns = samples(metrics, "wenmai_turns_total");
  const of = (mode) => turns.filter(([labels]) => labels.policy_mode === mode).reduce((sum, [, value]) => sum + value, 0);
  const degraded = samples(metrics, "wenmai_degraded_total");
  if (!turns.length) {
    holder.replaceChildren(empty(say("noTurns")));
    return;
  }
  holder.replaceChildren(element("p", { class: "hint" }, say("modesHint")),
    shares(say("modes"), MODES.map((mode) => [say(mode), of(mode), `mode-${mode}`]), say("mode")),
    ...(degraded.length ? [table(say("degradedParts"), [say("degradedParts"), say("turns")], degraded.map(([labels, value]) => [labels.part, number(value)]))] : []));
}

async function showHealth(holder) {
  let state;
  try {
    state = await readiness();
  } catch {
    holder.replaceChildren(element("p", {}, badge(say("unreachable"), "bad")));
    return;
  }
  const stores = Object.entries(state.stores).map(([name, each]) =>
    [name, badge(say(each.state), each.state === "ok" ? "good" : "bad"), each.error ?? ""]);
  const breakers = Object.entries(state.breakers).map(([name, each]) =>
    [name, badge(say(each.state), each.state === "closed" ? "good" : "bad"), number(each.failures), number(each.refused)]);
  const { threads, oldest_seconds: oldest } = state.derived;
  const lag = threads ? `${number(threads)} ${say("threads")}, ${say("oldest")} ${duration(oldest)}` : say("noLag");
  const vectors = state.evidence && `${number(state.evidence.embedded)} / ${number(state.evidence.passages)}`;
  const kind = { ok: "good", degraded: "warn", down: "bad" }[state.status];
  holder.replaceChildren(
    element("p", {}, badge(say(state.status === "degraded" ? "degraded" : state.status), kind), element("span", { class: "hint" }, ` ${say("live")} · ${new Date().toLocaleTimeString(language())}`)),
    facts([[say("lag"), lag], [say("vectors"), vectors]]),
    table(say("store"), [say("store"), say("state_"), say("error")], stores),
    breakers.length ? table(say("breaker"), [say("breaker"), say("state_"), say("failures"), say("refused")], breakers) : empty(say("noBreakers")),
  );
}
