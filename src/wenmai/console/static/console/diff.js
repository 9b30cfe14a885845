// The difference of two texts, line by line, side by side.

import { element } from "../dom.js";
import { say } from "./texts.js";

const MOST = 400;

/** Pairs of lines, left and right; null where one has none. Beyond `MOST` lines they are paired as they are numbered. */
function aligned(left, right) {
  if (left.length > MOST || right.length > MOST) {
    const rest = Math.max(left.length, right.length);
    return Array.from({ length: rest }, (_, at) => [left[at] ?? null, right[at] ?? null]);
  }
  const common = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1));
  for (let one = left.length - 1; one >= 0; one -= 1) {
    for (let other = right.length - 1; other >= 0; other -= 1) {
      common[one][other] = left[one] === right[other] ? common[one + 1][other + 1] + 1
        : Math.max(common[one + 1][other], common[one][other + 1]);
    }
  }
  const pairs = [];
  let [one, other, gone, come] = [0, 0, [], []];
  const flush = () => {
    while (gone.length || come.length) pairs.push([gone.shift() ?? null, come.shift() ?? null]);
  };
  while (one < left.length || other < right.length) {
    if (one < left.length && other < right.length && left[one] === right[other]) {
      flush();
      pairs.push([left[one++], right[other++]]);
    } else if (other >= right.length || (one < left.length && common[one + 1][other] >= common[one][other + 1])) gone.push(left[one++]);
    else come.push(right[other++]);
  }
  flush();
  return pairs;
}

/** Both texts side by side, with what differs marked. */
export function difference(leftName, leftText, rightName, rightText) {
  const lines = (text) => (text ? text.split("\n") : []);
  const pairs = aligned(lines(leftText), lines(rightText));
  const side = (line, same, mark) => element(same || line === null ? "span" : mark, { class: same || line === null ? mark : null }, line ?? "");
  return element("div", {}, leftText === rightText ? element("p", { class: "hint" }, say("same")) : null,
    element("div", { class: "diff" }, element("h3", {}, leftName), element("h3", {}, rightName),
      ...pairs.flatMap(([left, right]) => [side(left, left === right, "del"), side(right, left === right, "ins")])));
}
