// Charts as SVG and HTML elements, each with its numbers as a table on demand.

import { drawn, element } from "../dom.js";
import { number, numbers } from "./parts.js";
import { say } from "./texts.js";

const WIDTH = innerWidth < 720 ? 380 : 720;
const HEIGHT = 180;
const LEFT = 56;
const BOTTOM = 22;
const WIDEST = 90;

const part = (kind, share) => {
  const made = element("span", { class: kind });
  made.style.width = `${100 * share}%`;
  return made;
};

const legend = (series) => element("ul", { class: "legend" }, ...series.map(({ name, kind }) =>
  element("li", {}, element("span", { class: `key ${kind}` }), name)));

/** Stacked columns: `columns` are `[label, values]`, a value for each of the `series` `{name, kind}`. */
export function stackedColumns(title, columns, series) {
  const top = Math.max(1, ...columns.map(([, values]) => values.reduce((sum, value) => sum + value, 0)));
  const step = Math.min(WIDEST, (WIDTH - LEFT) / columns.length);
  const scale = (HEIGHT - BOTTOM - 8) / top;
  const svg = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": title });
  for (const share of [0, 0.5, 1]) {
    const y = HEIGHT - BOTTOM - share * top * scale;
    svg.append(drawn("line", { x1: LEFT, x2: WIDTH, y1: y, y2: y, class: "grid" }),
      drawn("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, compact(share * top)));
  }
  const every = Math.ceil(columns.length / (WIDTH / 90));
  columns.forEach(([label, values], at) => {
    let y = HEIGHT - BOTTOM;
    const x = LEFT + at * step + step * 0.15;
    const column = drawn("g", {}, drawn("title", {}, `${label}: ${number(values.reduce((sum, value) => sum + value, 0))}`));
    values.forEach((value, which) => {
      y -= value * scale;
      column.append(drawn("rect", { x, y, width: step * 0.7, height: value * scale, class: series[which].kind }));
    });
    svg.append(column);
    if (at % every === 0) svg.append(drawn("text", { x: x + step * 0.35, y: HEIGHT - 6, "text-anchor": "middle" }, label.slice(5)));
  });
  const rows = columns.map(([label, values]) => [label, ...values.map((value) => number(value))]);
  return element("figure", {}, element("div", { class: "plot", tabindex: "0", role: "region", "aria-label": title }, svg), legend(series), numbers(title, [say("day"), ...series.map(({ name }) => name)], rows));
}

const compact = (value) => value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 });

/** Shares of a whole as one bar: `parts` are `[name, value, kind]`. */
export function shares(title, parts, heading) {
  const total = parts.reduce((sum, [, value]) => sum + value, 0) || 1;
  const rows = parts.map(([name, value]) => [name, number(value), `${number((100 * value) / total, 1)} %`]);
  const bar = element("div", { class: "stack", role: "img", "aria-label": `${title}: ${rows.map(([name, , share]) => `${name} ${share}`).join(", ")}` },
    ...parts.filter(([, value]) => value).map(([name, value, kind]) => {
      const made = part(`part ${kind}`, value / total);
      made.title = `${name}: ${number(value)}`;
      return made;
    }));
  const series = parts.map(([name, value, kind]) => ({ name: `${name} ${number((100 * value) / total)} %`, kind }));
  return element("figure", {}, bar, legend(series), numbers(title, [heading, say("count"), say("share")], rows));
}

/** Horizontal bars: `rows` are `[name, value]`. */
export function bars(title, rows, heading, unit) {
  const top = Math.max(1e-9, ...rows.map(([, value]) => value));
  return element("figure", {}, element("div", { "aria-hidden": "true" }, ...rows.map(([name, value]) => element("div", { class: "fall" },
    element("span", { class: "label", title: name }, name), element("span", { class: "lane" }, part("part tone-1", Math.max(0, value) / top)), element("span", {}, number(value, 2))))),
  numbers(title, [heading, unit], rows.map(([name, value]) => [name, number(value, 4)])));
}

/** Steps one after another: `steps` are `{name, status, duration_ms}`. */
export function waterfall(title, steps) {
  const total = steps.reduce((sum, each) => sum + each.duration_ms, 0) || 1;
  let before = 0;
  const rows = [];
  const lanes = steps.map((each) => {
    const bar = part(`part step-${each.status}`, Math.max(each.duration_ms / total, 0.004));
    bar.style.marginInlineStart = `${Math.min(99.5, (100 * before) / total)}%`;
    rows.push([each.name, each.status, number(before, 1), number(each.duration_ms, 1)]);
    before += each.duration_ms;
    return element("div", { class: "fall" }, element("span", { class: "label" }, each.name),
      element("span", { class: "lane" }, bar), element("span", {}, number(each.duration_ms, 1)));
  });
  return element("figure", {}, element("div", { "aria-hidden": "true" }, ...lanes),
    numbers(title, [say("step"), say("status"), say("start"), say("milliseconds")], rows));
}
