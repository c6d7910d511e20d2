// The keys of the instrument, while it has focus.

import { h } from "../base/dom.js";

const KEYS = [
  ["← →", "rounds"],
  ["[ ]", "stages"],
  ["P", "play"],
  ["Esc", "skip to end"],
  ["V", "hide the result"],
  ["T M", "tree, mask"],
  ["F", "fold a node"],
  ["B", "another lane beside"],
];
const SCROLL = ["pane", "decision-body", "node-table"]; // panes that Home and End scroll

export const keyLine = () =>
  h(
    "p.note.keys",
    "Keys: ",
    KEYS.flatMap(([key, does], i) => [i ? " · " : "", h("kbd", key), ` ${does}`]),
  );

/** Does what a pressed key means to the instrument, if anything. */
export function pressKey(event, { cursor, transport, round, beside, scenes, cards }) {
  const target = event.composedPath()[0];
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const writes = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
  const staged = writes && target.type !== "range" ? null : scenes.key(event);
  if (writes && !staged) return;
  const actions = {
    ArrowLeft: () => cursor.step(-1),
    ArrowRight: () => cursor.step(1),
    ",": () => cursor.step(-1),
    ".": () => cursor.step(1),
    Home: () => cursor.step(-1e9),
    End: () => cursor.step(1e9),
    p: () => transport.toggle(),
    Escape: () => transport.toEnd(),
    "[": () => cursor.stage(-1),
    "]": () => cursor.stage(1),
    v: () => cursor.hide(),
    t: () => round.show("tree"),
    m: () => round.show("mask"),
    b: () => beside.toggle(),
    ...cards.keys,
  };
  const act = staged || actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  const scrolls = target.classList && SCROLL.some((name) => target.classList.contains(name));
  if (!act || (scrolls && /^(Home|End)$/.test(event.key))) return;
  event.preventDefault();
  act();
}
