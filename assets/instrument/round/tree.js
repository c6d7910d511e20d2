// The selected round as a tree: every drafted node with its fate, and the token that the target added.
//
// `layout` is pure geometry from the round's shape alone. Wide panes draw it as SVG; narrow ones as an indented outline
// of the same buttons. Shape first (pill: accepted; box: rejected, or its correction), glyph second, colour third.

import { button, h, s, setText, zoomOf } from "../base/dom.js";
import { FATES } from "../base/fates.js";
import { formatProb, shorten, visible } from "../base/format.js";
import { fateAt } from "../base/stages.js";
import { decisionAt, isArgmax, slotRaw } from "../base/store.js";
import { MiniMap } from "./minimap.js";
import { verifiedWords } from "./verified.js";

const CHAR = 7.6; // width of one character of the 12.5 px mono face
const SMALL = 6.7; // and of the 11 px face beneath
const NODE = 27; // height of a node
const DENSE = 12; // rows; more than these are drawn close together
const ROW = [33, 46, 61]; // height of a row whose nodes have so many lines beneath
const ZOOM = 1.25;
const BENEATH = [() => true, (item) => item.verified || item.key === "last", () => false]; // which nodes have lines

/** Items of a round as far as it is known: the root, its nodes, and `last`. `slot` is where an item was decided. */
export function itemsOf(lane, round, known) {
  const root = slotRaw(lane, round, -1);
  const items = [
    {
      key: -1,
      node: null,
      fate: "root",
      label: root.text,
      parent: null,
      depth: 0,
      slot: -1,
      note: root.prompt ? "prompt" : "written",
    },
  ];
  const byKey = new Map([[-1, items[0]]]); // parents come before children; anything else hangs from the root
  for (const n of known.drafted ? round.nodes : []) {
    const above = byKey.get(n.parent) || items[0];
    const item = {
      key: n.id,
      node: n,
      fate: fateAt(round, known, n),
      label: visible(n.raw),
      parent: above.key,
      depth: above.depth + 1,
      slot: above.key,
      p: known.verified ? n.p : null,
      q: n.q,
      verified: verifiedWords(round, known, n),
    };
    if (byKey.has(n.id)) continue;
    byKey.set(n.id, item);
    items.push(item);
  }
  if (!known.result) return items;
  const above = byKey.get(round.last.slot) || items[0];
  const dropped = round.emitted.length <= round.accepted; // the round was cut before its last token
  items.push({
    key: "last",
    node: null,
    fate: dropped ? "unvisited" : round.last.kind,
    dropped,
    label: visible(round.last.raw),
    parent: above.key,
    depth: above.depth + 1,
    slot: round.last.slot,
    note: dropped ? "discarded" : originWords(round),
  });
  return items;
}

const childrenOf = (items) => {
  const children = new Map(items.map((item) => [item.key, []]));
  for (const item of items) if (item.parent !== null) children.get(item.parent).push(item);
  return children;
};

/** The same items, every node right above its children: the order in which an outline is read. */
function depthFirst(items) {
  const children = childrenOf(items);
  const below = (item) => [item, ...children.get(item.key).flatMap(below)];
  return below(items[0]);
}

/** Without what hangs below a folded item; that item says how many it hides. */
function withoutFolded(items, folded) {
  const children = childrenOf(items);
  const size = (item) => children.get(item.key).reduce((sum, child) => sum + 1 + size(child), 0);
  const kept = new Set();
  const keep = (item) => {
    kept.add(item);
    item.hides = folded.has(item.key) ? size(item) : 0;
    if (!folded.has(item.key)) children.get(item.key).forEach(keep);
  };
  keep(items[0]);
  return items.filter((item) => kept.has(item));
}

/** Where the round's own token came from, in words. */
function originWords(round) {
  const decision = decisionAt(round, round.last.slot);
  const greedy = round.decisions.some((c) => c.rule === "greedy") || isArgmax(round);
  if (round.last.kind === "correction") {
    if (decision && ["deterministic", "typical", "top-k"].includes(decision.rule)) return "sampled from p";
    return decision && decision.rule === "greedy" ? "argmax" : "sampled from the residual";
  }
  return greedy ? "argmax" : "sampled from p";
}

/** Pure: rows and columns. Leaves get a row each, parents are between their first and last child. */
function treeLayout(items) {
  const children = childrenOf(items);
  let rows = 0;
  const place = (item) => {
    const below = children.get(item.key);
    below.forEach(place);
    item.row = below.length ? (below[0].row + below[below.length - 1].row) / 2 : rows++;
  };
  place(items[0]);
  return { rows, columns: 1 + Math.max(...items.map((item) => item.depth)) };
}

/** The nodes below which nothing was decided, though something hangs there. */
function foldable(items) {
  const unjudged = (item) => item.fate === "unvisited" && item.node;
  const ends = items.filter((item) => item.fate === "rejected" || unjudged(item));
  const below = (item) => items.filter((i) => i.parent === item.key);
  return new Set(ends.filter((item) => below(item).length && below(item).every(unjudged)).map((item) => item.key));
}

function edge(item, x0, y0, x1, y1) {
  const bend = Math.max(12, (x1 - x0) / 2);
  return s("path", { class: `edge ${item.fate}`, d: `M${x0} ${y0}C${x0 + bend} ${y0} ${x1 - bend} ${y1} ${x1} ${y1}` });
}

const GLYPH = {
  root: "",
  drafted: "",
  ...Object.fromEntries(Object.entries(FATES).map(([fate, f]) => [fate, f.glyph])),
};
const has = (x) => x !== null && x !== undefined;

const under = (item) =>
  item.note ||
  [has(item.p) ? `p ${formatProb(item.p)}` : "", has(item.q) ? `q ${formatProb(item.q)}` : ""]
    .filter(Boolean)
    .join("  ");

/** What stands beneath a node: how it was verified and with what result, else its probabilities. */
const linesOf = (item) =>
  (item.verified ? [item.verified.test || under(item), item.verified.outcome] : [under(item)]).filter(Boolean);

function wordOf(item) {
  return item.fate === "root" ? item.note : item.dropped ? "discarded" : FATES[item.fate].word;
}

function spoken(item) {
  const distribution = item.fate === "root" ? "" : under(item) ? `, ${under(item).replace("  ", ", ")}` : "";
  const test = item.verified?.test ? `, ${item.verified.test}` : "";
  return `${item.label}, ${wordOf(item)}${distribution}${test}${item.hides ? `, ${item.hides} hidden below` : ""}`;
}

/** One item in a line: who drafted it, its probabilities, its fate. */
export function itemWords(item) {
  return item.node
    ? [item.label, `drafted by ${item.node.origin}`, under(item).replace("  ", ", "), item.verified?.test, wordOf(item)]
        .filter(Boolean)
        .join(" · ")
    : spoken(item);
}

export class TreeView {
  constructor(actions) {
    this.actions = actions; // { open(slot, key) }
    this.zoom = 1;
    this.folded = new Set();
    this.body = h("div.tree-body", {
      role: "group",
      on: {
        keydown: (event) => this.keys(event),
        wheel: (event) => this.wheel(event),
        pointerdown: (event) => this.drag(event),
      },
    });
    this.map = new MiniMap(this.body);
    const tool = (text, label, act) =>
      h("button.small.square", { type: "button", "aria-label": label, on: { click: act } }, text);
    this.foldAll = button("Fold not reached", () => this.foldUnjudged());
    this.tools = h(
      "div.controls.tools",
      tool("−", "Zoom out", () => this.zoomBy(1 / ZOOM)),
      tool("+", "Zoom in", () => this.zoomBy(ZOOM)),
      button("Fit", () => this.zoomTo(1)),
      this.foldAll,
    );
    this.root = h("div.tree-face", this.tools, this.body, this.map.root);
  }

  /** A picture is made anew only where its shape has changed. The whole tree fits its pane, and a small one grows to
   *  the `look`'s `largest`, until a reader zooms. */
  paint(lane, round, known, selection, narrow, tall, look) {
    this.look = look;
    const place = `${lane.start?.run}/${lane.name}/${round.index}`;
    if (place !== this.place) {
      this.place = place;
      this.folded.clear();
      this.zoom = 1;
    }
    this.result = known.result;
    this.body.style.height = narrow ? "" : `${tall}px`;
    const stamp = `${place}/${known.beat}/${narrow}/${tall}/${this.body.clientWidth}/${this.zoom}/${look.bare}/${look.brief}/${look.largest}/${[...this.folded].join()}`;
    const held = this.body.contains(this.body.getRootNode().activeElement);
    const fresh = stamp !== this.stamp;
    if (fresh) {
      this.stamp = stamp;
      const items = itemsOf(lane, round, known);
      this.items = withoutFolded(items, look.brief && !this.folded.size ? foldable(items) : this.folded);
      this.body.setAttribute("aria-label", `Round ${round.index + 1} as a tree`);
      this.body.replaceChildren(narrow ? this.outline() : this.drawing());
      this.buttons = new Map(Array.from(this.body.querySelectorAll("[data-key]"), (node) => [node.dataset.key, node]));
    }
    this.mark(selection);
    if (held && fresh) this.chosen.focus({ preventScroll: true });
    if (!narrow && this.zoom > 1) this.reveal(this.chosen);
    this.tools.hidden = narrow || look.brief || (!this.shrunk && !this.folded.size && this.zoom === 1);
    if (fresh) this.map.paint(narrow || this.zoom <= 1 ? null : this.drawn);
    const unjudged = this.items.some((item) => item.fate === "unvisited" && item.node);
    this.foldAll.hidden = !known.result || !(unjudged || this.folded.size);
    setText(this.foldAll, this.folded.size ? "Unfold all" : "Fold not reached");
  }

  mark(selection) {
    const item = currentItem(this.items, selection);
    const chosen = this.buttons.get(String(item.key));
    if (this.chosen && this.chosen !== chosen) this.set(this.chosen, false);
    this.chosen = chosen;
    this.set(chosen, true);
    for (const [key, node] of this.buttons)
      node.classList.toggle("lit", Boolean(selection.lit && selection.lit.has(Number(key))));
  }

  set(node, on) {
    node.classList.toggle("sel", on);
    node.setAttribute("tabindex", on ? "0" : "-1");
    node.setAttribute("aria-pressed", String(on));
  }

  /** Scrolls the pane, never the page. */
  reveal(node) {
    const pane = this.body.getBoundingClientRect();
    const box = node.getBoundingClientRect();
    const zoom = zoomOf(this.body);
    if (box.right > pane.right) this.body.scrollLeft += (box.right - pane.right) / zoom + 40;
    if (box.left < pane.left) this.body.scrollLeft -= (pane.left - box.left) / zoom + 40;
    if (box.bottom > pane.bottom) this.body.scrollTop += (box.bottom - pane.bottom) / zoom + 40;
    if (box.top < pane.top) this.body.scrollTop -= (pane.top - box.top) / zoom + 40;
  }

  button(item) {
    return {
      tabindex: "-1",
      role: "button",
      "aria-label": spoken(item),
      "aria-pressed": "false",
      "data-key": item.key,
      on: {
        click: () => this.actions.open(item.key === -1 ? -1 : item.slot, item.key),
        dblclick: () => this.fold(item),
      },
    };
  }

  drawing() {
    const { rows, columns } = treeLayout(this.items);
    this.rows = rows;
    const plan = this.plan(rows, columns);
    const { label, lines, widths, x, y, total, height, scale } = plan;
    const svg = s("svg.tree-svg", { width: total * scale, height: height * scale, viewBox: `0 0 ${total} ${height}` });
    const byKey = new Map(this.items.map((item) => [item.key, item]));
    for (const item of this.items) {
      const above = byKey.get(item.parent);
      if (above) svg.append(edge(item, x(above) + widths.get(above), y(above), x(item), y(item)));
    }
    for (const item of depthFirst(this.items))
      svg.append(this.nodeOf(item, { x: x(item), y: y(item), w: widths.get(item) }, label(item), lines.get(item)));
    const boxes = this.items.map((item) => ({
      fate: item.fate,
      x: x(item),
      y: y(item) - NODE / 2,
      w: widths.get(item),
    }));
    this.drawn = { total, height, boxes, tall: NODE };
    return svg;
  }

  nodeOf(item, { x, y, w }, label, lines) {
    const pill = ["accepted", "bonus", "root", "plain"].includes(item.fate);
    return s(
      "g",
      { class: `node ${item.fate}`, transform: `translate(${x} ${y - NODE / 2})`, ...this.button(item) },
      s("title", itemWords(item)),
      s("rect.halo", { x: -4, y: -4, width: w + 8, height: NODE + 8, rx: pill ? NODE / 2 + 4 : 5 }),
      s("rect.shape", { width: w, height: NODE, rx: pill ? NODE / 2 : 2.5 }),
      s("text", { x: w / 2, y: NODE / 2 + 4.3, "text-anchor": "middle" }, label),
      lines.map((text, i) =>
        s("text", { class: i ? "pq outcome" : "pq", x: w / 2, y: NODE + 14 + 12 * i, "text-anchor": "middle" }, text),
      ),
    );
  }

  /** As much beneath the nodes as can be read with the whole tree in view, or as far as the reader has zoomed. */
  plan(rows, columns) {
    const { brief } = this.look;
    const most = brief ? 5 : rows > DENSE ? 9 : 12;
    const label = (item) =>
      shorten(item.label, most) +
      (GLYPH[item.fate] ? " " + GLYPH[item.fate] : "") +
      (item.hides ? ` ▸${brief ? "" : item.hides}` : "");
    const wide = (item) => Math.max(44, Array.from(label(item)).length * CHAR + (brief ? 13 : 20));
    const widths = new Map(this.items.map((item) => [item, wide(item)]));
    let plan;
    for (const captioned of this.look.bare ? BENEATH.slice(-1) : BENEATH) {
      const lines = new Map(this.items.map((item) => [item, captioned(item) ? linesOf(item) : []]));
      const longest = (item) => Math.max(0, ...lines.get(item).map((text) => text.length)) * SMALL + 4;
      const needs = new Map(this.items.map((item) => [item, Math.max(widths.get(item), longest(item))]));
      const [x, total] = this.columns(widths, needs, columns);
      const [y, height] = this.heights(rows, lines);
      const fits = this.fits(total, height);
      plan = { label, lines, widths, x, y, total, height, scale: this.zoom * fits };
      this.shrunk = captioned !== BENEATH[0] || fits < this.look.smallest;
      if (plan.scale >= this.look.smallest) break;
    }
    return plan;
  }

  /** Middles of the nodes, and the height of the whole: rows stand as close as what is beneath their nodes lets them. */
  heights(rows, lines) {
    const gaps = Array.from({ length: rows }, () => ROW[0]);
    const top = () => gaps.reduce((all, gap) => [...all, all[all.length - 1] + gap], [18]);
    const at = (tops, row) => {
      const low = Math.floor(row);
      return tops[low] + (row - low) * (tops[Math.ceil(row)] - tops[low]);
    };
    const ordered = [...lines.keys()].sort((one, other) => one.row - other.row);
    for (const item of ordered) {
      const next = ordered.find((other) => other.depth === item.depth && other.row > item.row);
      const tops = top();
      const room = (next ? at(tops, next.row) : tops[rows]) - at(tops, item.row);
      gaps[Math.ceil(item.row)] += Math.max(0, ROW[lines.get(item).length] - room);
    }
    const tops = top();
    return [(item) => at(tops, item.row), tops[rows] + 2];
  }

  /** The scale at which all is in view; a small tree is enlarged. */
  fits(total, height) {
    const { clientWidth, clientHeight } = this.body; // 0 while it is not shown
    return Math.min(Math.max(1, clientWidth - 16) / total, Math.max(1, clientHeight - 8) / height, this.look.largest);
  }

  /** Left edges by column, spread over the pane where it is wider than the tree. */
  columns(widths, needs, columns) {
    const widest = Array.from({ length: columns }, () => 0);
    for (const [item, w] of needs) widest[item.depth] = Math.max(widest[item.depth], w);
    const needed = widest.reduce((sum, w) => sum + w, 0);
    const room = (this.body.clientWidth - 16) / Math.max(1, this.look.smallest) - 20 - needed;
    const gap = columns > 1 ? Math.max(this.look.brief ? 9 : 16, Math.min(56, room / (columns - 1))) : 0;
    const left = [];
    let at = 8;
    for (const w of widest) {
      left.push(at);
      at += w + gap;
    }
    return [(item) => left[item.depth] + (widest[item.depth] - widths.get(item)) / 2, at - gap + 8];
  }

  outline() {
    this.rows = this.items.length;
    const most = Math.max(0.001, ...this.items.map((item) => Math.max(item.p || 0, item.q || 0)));
    const bar = (kind, x) => h("i", { class: kind, style: { width: `${(100 * (x || 0)) / most}%` } });
    return h(
      "ul.outline",
      depthFirst(this.items).map((item) =>
        h(
          "li",
          { style: { "padding-left": `${Math.min(item.depth, 9) * 13}px` } },
          h(
            "button",
            { type: "button", class: `row ${item.fate}`, ...this.button(item), role: null },
            h("span", { class: `glyph ${item.fate}` }, GLYPH[item.fate] || "○"),
            h("span.token", shorten(item.label, 14)),
            item.node ? h("span.twin", bar("p", item.p), bar("q", item.q)) : null,
            h("span.pq", linesOf(item).join("\n") + (item.hides ? ` ▸${item.hides}` : "")),
          ),
        ),
      ),
    );
  }

  // Zoom, pan, fold.

  zoomBy(factor) {
    this.zoomTo(Math.max(0.5, Math.min(8, this.zoom * factor)));
  }

  zoomTo(zoom) {
    this.zoom = zoom;
    this.actions.repaint();
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this.zoomBy(event.deltaY < 0 ? ZOOM : 1 / ZOOM);
  }

  /** The ground is dragged; nodes are clicked. */
  drag(event) {
    if (event.button !== 0 || event.pointerType !== "mouse" || event.target.closest("[data-key]")) return;
    const from = { x: event.clientX + this.body.scrollLeft, y: event.clientY + this.body.scrollTop };
    const move = (e) => this.body.scrollTo(from.x - e.clientX, from.y - e.clientY);
    const done = () => this.body.removeEventListener("pointermove", move);
    this.body.setPointerCapture(event.pointerId);
    this.body.addEventListener("pointermove", move);
    this.body.addEventListener("pointerup", done, { once: true });
    this.body.addEventListener("pointercancel", done, { once: true });
  }

  fold(item) {
    if (this.folded.has(item.key)) this.folded.delete(item.key);
    else if (this.items.some((i) => i.parent === item.key)) this.folded.add(item.key);
    else return;
    this.actions.repaint();
  }

  /** Whatever was never decided disappears below the node that was; a second time brings it all back. */
  foldUnjudged() {
    if (this.folded.size) this.folded.clear();
    else this.folded = foldable(this.items);
    this.actions.repaint();
  }

  /**
   * Arrow keys among the nodes: to the parent, the first child, the siblings and cousins of the same depth. F folds.
   */
  keys(event) {
    const at = event.target.closest("[data-key]");
    if (!at || !this.items) return;
    const item = this.items.find((i) => String(i.key) === at.dataset.key);
    const fold = event.key === "f" || event.key === "F";
    const next = fold ? item : this.neighbour(item, event.key);
    const press = event.key === "Enter" || event.key === " ";
    if (!next && !press) return;
    event.preventDefault();
    event.stopPropagation();
    if (fold) this.fold(item);
    else this.actions.open((next || item).key === -1 ? -1 : (next || item).slot, (next || item).key);
  }

  neighbour(item, key) {
    if (key === "ArrowLeft") return this.items.find((i) => i.key === item.parent) || item;
    if (key === "ArrowRight") return this.items.find((i) => i.parent === item.key) || item;
    if (key !== "ArrowUp" && key !== "ArrowDown") return null;
    const level = this.items.filter((i) => i.depth === item.depth).sort((a, b) => (a.row ?? 0) - (b.row ?? 0));
    return level[level.indexOf(item) + (key === "ArrowDown" ? 1 : -1)] || item;
  }
}

/** The item that a selection means: its own, or the first of its slot, or the root. */
export function currentItem(items, selection) {
  return (
    items.find((i) => i.key === selection.key) ||
    items.find((i) => i.slot === selection.slot && i.key !== -1) ||
    items[0]
  );
}
