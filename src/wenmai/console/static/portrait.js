// Portraits, drawn from a persona's id: the same id gives the same face.

import { drawn } from "./dom.js";

const COLOURS = [["#8f2d1f", "#f0d9b8"], ["#1f5a5e", "#f3e3c7"], ["#5b3a7a", "#f2dcc8"], ["#7a5a1e", "#f6e6cf"], ["#2f5d34", "#f4dfc2"]];

function hashed(id) {
  let hash = 2166136261;
  for (const character of id) hash = Math.imul(hash ^ character.codePointAt(0), 16777619) >>> 0;
  return hash;
}

/** The portrait of a persona. */
export function portrait(id) {
  const hash = hashed(id);
  const [robe, skin] = COLOURS[hash % COLOURS.length];
  const grey = (hash >> 4) % 2;
  const hair = grey ? "#d9d6d0" : "#2b2a28";
  const parts = [
    drawn("rect", { width: 40, height: 40, rx: 20, fill: `${robe}22` }),
    drawn("path", { d: "M5 40c1-10 7-14 15-14s14 4 15 14z", fill: robe }),
    drawn("path", { d: "M16 27l4 6 4-6z", fill: skin }),
    drawn("circle", { cx: 20, cy: 17, r: 8, fill: skin }),
    drawn("path", { d: "M11.5 16c0-6 4-9 8.5-9s8.5 3 8.5 9c-2-4-4-5-8.5-5s-6.5 1-8.5 5z", fill: hair }),
    drawn("circle", { cx: 17, cy: 17, r: 0.9, fill: "#222" }),
    drawn("circle", { cx: 23, cy: 17, r: 0.9, fill: "#222" }),
    drawn("path", { d: "M17.5 21q2.5 1.8 5 0", fill: "none", stroke: "#7a3b2e", "stroke-width": 0.9 }),
  ];
  if (grey) parts.push(drawn("path", { d: "M15 22c1 6 3 8 5 8s4-2 5-8c-2 2-8 2-10 0z", fill: hair }));
  if ((hash >> 6) % 2) parts.push(drawn("circle", { cx: 20, cy: 6.5, r: 3, fill: hair }));
  return drawn("svg", { viewBox: "0 0 40 40", class: "portrait", "aria-hidden": "true" }, ...parts);
}
