// The selected round as a tree: every drafted node with its fate, and the token that the target added.
//
// `layout` is pure geometry from the round's shape alone. Wide panes draw it as SVG; narrow ones as an indented outline
// of the same buttons. Shape first (pill: it stands; box: it fell or replaced), glyph second, colour third.

(function (D) {
  "use strict";
  const { h, s } = D;
  const CHAR = 7.6; // width of one character of the 12.5 px mono face
  const SMALL = 6.7; // and of the 11 px face beneath
  const NODE = 27; // height of a node
  const LARGEST = 1.3; // a small tree in a large pane grows so far
  const SMALLEST = 0.84; // a tree too wide for its pane shrinks so far, then scrolls

  /** Items of a round: the root, its nodes, and `last`. `slot` is where an item was judged, `below` what hangs under it. */
  D.itemsOf = function itemsOf(lane, round) {
    const root = D.slotRaw(lane, round, -1);
    const items = [{ key: -1, node: null, fate: "root", label: root.text, parent: null, depth: 0, slot: -1, note: root.prompt ? "prompt" : "committed" }];
    const byKey = new Map([[-1, items[0]]]); // parents stand before children; what claims otherwise hangs from the root
    for (const n of round.nodes) {
      const above = byKey.get(n.parent) || items[0];
      const item = { key: n.id, node: n, fate: n.fate, label: D.visible(n.raw), parent: above.key, depth: above.depth + 1, slot: above.key, p: n.p, q: n.q };
      if (byKey.has(n.id)) continue;
      byKey.set(n.id, item);
      items.push(item);
    }
    const above = byKey.get(round.last.slot) || items[0];
    const dropped = round.emitted.length <= round.accepted; // the round was cut before its last token
    items.push({ key: "last", node: null, fate: dropped ? "unvisited" : round.last.kind, dropped, label: D.visible(round.last.raw), parent: above.key, depth: above.depth + 1, slot: round.last.slot, note: dropped ? "discarded" : D.origin(round) });
    return items;
  };

  /** The same items, every node right above its children: the order in which an outline is read. */
  D.depthFirst = function depthFirst(items) {
    const below = (item) => [item, ...items.filter((i) => i.parent === item.key && i.key !== item.key).flatMap(below)];
    return below(items[0]);
  };

  /** Where the round's own token came from, in words. */
  D.origin = function origin(round) {
    const contest = D.contestOf(round, round.last.slot);
    const greedy = round.contests.some((c) => c.rule === "greedy") || (round.last.coin === null || round.last.coin === undefined);
    if (round.last.kind === "correction") {
      if (contest && contest.rule === "deterministic") return "drawn from p";
      return contest && contest.rule === "greedy" ? "argmax" : "from the residual";
    }
    return greedy ? "argmax" : "drawn from p";
  };

  /** Pure: rows and columns. Leaves get a row each, parents stand between their first and last child. */
  D.layout = function layout(items) {
    const children = new Map(items.map((item) => [item.key, []]));
    for (const item of items) if (item.parent !== null) (children.get(item.parent) || children.get(-1)).push(item);
    let rows = 0;
    const place = (item) => {
      const below = children.get(item.key);
      below.forEach(place);
      item.row = below.length ? (below[0].row + below[below.length - 1].row) / 2 : rows++;
    };
    place(items[0]);
    return { rows, columns: 1 + Math.max(...items.map((item) => item.depth)) };
  };

  const GLYPH = { root: "", ...Object.fromEntries(Object.entries(D.FATES).map(([fate, f]) => [fate, f.glyph])) };

  function spoken(item) {
    if (item.fate === "root") return `${item.label}, ${item.note}`;
    const word = item.dropped ? "discarded" : D.FATES[item.fate].word;
    const law = item.note ? `, ${item.note}` : `, p ${D.prob(item.p)}${item.q === null || item.q === undefined ? "" : `, q ${D.prob(item.q)}`}`;
    return `${item.label}, ${word}${law}`;
  }

  const under = (item) => item.note || (item.q === null || item.q === undefined ? `p ${D.prob(item.p)}` : `p ${D.prob(item.p)}  q ${D.prob(item.q)}`);

  D.TreeView = class TreeView {
    constructor(actions) {
      this.actions = actions; // { open(slot, key), step(by) }
      this.title = h("h3", {});
      this.what = h("p", { class: "note" });
      this.back = h("button", { class: "small square", type: "button", text: "◀", "aria-label": "Previous round", on: { click: () => actions.step(-1) } });
      this.on = h("button", { class: "small square", type: "button", text: "▶", "aria-label": "Next round", on: { click: () => actions.step(1) } });
      this.body = h("div", { class: "tree-body", role: "group", on: { keydown: (event) => this.keys(event) } });
      this.legend = h("p", { class: "legend" }, ["accepted", "rejected", "correction", "bonus", "unvisited"].map((fate) =>
        h("span", { class: "key" }, h("span", { class: `glyph ${fate}`, text: D.FATES[fate].glyph, "aria-hidden": "true" }), " " + D.FATES[fate].word)));
      this.root = h("section", { class: "card tree" },
        h("header", { class: "card-head" }, h("div", { class: "head-text" }, this.title, this.what), h("div", { class: "controls" }, this.back, this.on)),
        this.body, h("div", { class: "foot-line" }, this.legend, h("p", { class: "note keys", text: "← → rounds · P plays" })));
    }

    paint(selection, narrow) {
      const round = selection && selection.lane.rounds[selection.round];
      this.back.disabled = !round || selection.round === 0;
      this.on.disabled = !round || selection.round + 1 >= selection.lane.rounds.length;
      const stamp = round ? `${selection.lane.name}/${selection.lane.start?.run}/${round.index}/${selection.slot}/${selection.key}/${narrow}` : "";
      if (round) D.setText(this.title, `Round ${round.index + 1}${selection.lane.end ? ` of ${selection.lane.rounds.length}` : ""}`);
      if (stamp === this.stamp) return;
      this.stamp = stamp;
      if (!round) {
        D.setText(this.title, "The round");
        D.setText(this.what, "");
        return this.body.replaceChildren();
      }
      D.setText(this.what, this.words(round));
      this.items = D.itemsOf(selection.lane, round);
      const held = this.body.contains(this.body.getRootNode().activeElement);
      this.body.setAttribute("aria-label", `Round ${round.index + 1} as a tree`);
      this.body.replaceChildren(narrow ? this.outline(selection) : this.drawing(selection));
      const current = this.body.querySelector("[tabindex='0']");
      if (current && !narrow) this.reveal(current);
      if (held && current) current.focus({ preventScroll: true });
    }

    /** Scrolls the pane, never the page. */
    reveal(node) {
      const pane = this.body.getBoundingClientRect();
      const box = node.getBoundingClientRect();
      if (box.right > pane.right) this.body.scrollLeft += box.right - pane.right + 40;
      if (box.left < pane.left) this.body.scrollLeft -= pane.left - box.left + 40;
      if (box.bottom > pane.bottom) this.body.scrollTop += box.bottom - pane.bottom + 40;
      if (box.top < pane.top) this.body.scrollTop -= pane.top - box.top + 40;
    }

    words(round) {
      if (!round.nodes.length) return "nothing drafted: the target's own token";
      const parts = [`${round.drafted} drafted`, `${round.accepted} accepted`];
      if (round.emitted.length > round.accepted) parts.push(`1 ${round.last.kind}`);
      if (round.cut) parts.push(round.cut === "length" ? "cut at the length asked for" : round.cut === "eos" ? "cut: the text ended" : "cut at a stop string");
      return parts.join(" · ") + ` · ${D.count(round.width, "row")} in one target forward`;
    }

    current(selection) {
      return this.items.find((i) => i.key === selection.key) || this.items.find((i) => i.slot === selection.slot && i.key !== -1) || this.items[0];
    }

    button(item, selection) {
      const chosen = item === this.current(selection);
      return {
        tabindex: chosen ? "0" : "-1", role: "button", "aria-label": spoken(item), "aria-pressed": String(chosen), "data-key": item.key,
        on: { click: () => this.actions.open(item.key === -1 ? -1 : item.slot, item.key) },
      };
    }

    drawing(selection) {
      const { rows, columns } = D.layout(this.items);
      const dense = rows > 12;
      const most = dense ? 9 : 12;
      const label = (item) => D.shorten(item.label, most) + (GLYPH[item.fate] ? " " + GLYPH[item.fate] : "");
      const widths = new Map(this.items.map((item) => [item, Math.max(44, Array.from(label(item)).length * CHAR + 20)]));
      const needs = new Map(this.items.map((item) => [item, Math.max(widths.get(item), dense ? 0 : under(item).length * SMALL + 4)]));
      const rowHeight = dense ? 33 : 56;
      const [x, total] = this.columns(widths, needs, columns);
      const room = this.body.clientWidth - 16;
      const y = (item) => 18 + item.row * rowHeight;
      const height = 36 + (rows - 1) * rowHeight + (dense ? 4 : 18);
      const fits = Math.min(room / total, (this.body.clientHeight - 8) / height);
      const scale = total > room ? Math.max(SMALLEST, room / total) : Math.max(1, Math.min(LARGEST, fits));
      const svg = s("svg", { width: total * scale, height: height * scale, viewBox: `0 0 ${total} ${height}`, class: "tree-svg" });
      const byKey = new Map(this.items.map((item) => [item.key, item]));
      for (const item of this.items) {
        if (item.parent === null) continue;
        const above = byKey.get(item.parent) || this.items[0];
        const x0 = x(above) + widths.get(above);
        const bend = Math.max(12, (x(item) - x0) / 2);
        svg.append(s("path", { class: `edge ${item.fate}`, d: `M${x0} ${y(above)}C${x0 + bend} ${y(above)} ${x(item) - bend} ${y(item)} ${x(item)} ${y(item)}` }));
      }
      const on = this.current(selection);
      for (const item of this.items) {
        const w = widths.get(item);
        const pill = item.fate === "accepted" || item.fate === "bonus" || item.fate === "root" || item.fate === "plain";
        svg.append(s("g", { class: `node ${item.fate}${item === on ? " sel" : ""}`, transform: `translate(${x(item)} ${y(item) - NODE / 2})`, ...this.button(item, selection) },
          s("title", {}, `${spoken(item)}${item.node ? ` (from ${item.node.origin})` : ""}`),
          s("rect", { class: "halo", x: -4, y: -4, width: w + 8, height: NODE + 8, rx: pill ? NODE / 2 + 4 : 5 }),
          s("rect", { class: "shape", width: w, height: NODE, rx: pill ? NODE / 2 : 2.5 }),
          s("text", { x: w / 2, y: NODE / 2 + 4.3, "text-anchor": "middle" }, label(item)),
          dense ? null : s("text", { class: "pq", x: w / 2, y: NODE + 14, "text-anchor": "middle" }, under(item))));
      }
      return svg;
    }

    /** Left edges by column, spread over the pane where it is wider than the tree. */
    columns(widths, needs, columns) {
      const widest = Array.from({ length: columns }, () => 0);
      for (const [item, w] of needs) widest[item.depth] = Math.max(widest[item.depth], w);
      const needed = widest.reduce((sum, w) => sum + w, 0);
      const room = this.body.clientWidth - 24 - needed;
      const gap = columns > 1 ? Math.max(16, Math.min(56, room / (columns - 1))) : 0;
      const left = [];
      let at = 8;
      for (const w of widest) {
        left.push(at);
        at += w + gap;
      }
      return [(item) => left[item.depth] + (widest[item.depth] - widths.get(item)) / 2, at - gap + 8];
    }

    outline(selection) {
      const most = Math.max(0.001, ...this.items.map((item) => Math.max(item.p || 0, item.q || 0)));
      const on = this.current(selection);
      return h("ul", { class: "outline" }, D.depthFirst(this.items).map((item) =>
        h("li", { style: { "padding-left": `${Math.min(item.depth, 9) * 13}px` } },
          h("button", { type: "button", class: `row ${item.fate}${item === on ? " sel" : ""}`, ...this.button(item, selection), role: null },
            h("span", { class: `glyph ${item.fate}`, text: GLYPH[item.fate] || "○" }),
            h("span", { class: "token", text: D.shorten(item.label, 14) }),
            item.node ? h("span", { class: "twin" }, h("i", { class: "p", style: { width: `${(100 * item.p) / most}%` } }), h("i", { class: "q", style: { width: `${(100 * (item.q || 0)) / most}%` } })) : null,
            h("span", { class: "pq", text: under(item) })))));
    }

    /** Arrow keys among the nodes: to the parent, the first child, the siblings and cousins of the same depth. */
    keys(event) {
      const at = event.target.closest("[data-key]");
      if (!at || !this.items) return;
      const item = this.items.find((i) => String(i.key) === at.dataset.key);
      const next = this.neighbour(item, event.key);
      if (!next) return;
      event.preventDefault();
      event.stopPropagation();
      this.actions.open(next.key === -1 ? -1 : next.slot, next.key);
    }

    neighbour(item, key) {
      if (key === "ArrowLeft") return this.items.find((i) => i.key === item.parent) || item;
      if (key === "ArrowRight") return this.items.find((i) => i.parent === item.key) || item;
      if (key !== "ArrowUp" && key !== "ArrowDown") return null;
      const level = this.items.filter((i) => i.depth === item.depth).sort((a, b) => (a.row ?? 0) - (b.row ?? 0));
      return level[level.indexOf(item) + (key === "ArrowDown" ? 1 : -1)] || item;
    }
  };
})(window.Draftscope);
