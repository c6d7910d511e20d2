// The contest: how the children of one slot were judged, from the laws they really faced.
//
// p and q overlaid: what both agree on is solid, the draft's excess is hatched one way (it can be rejected), the target's
// excess the other way (the residual). Each rule has its own form: a coin is shown only where one was tossed against a
// threshold; greedy, deterministic and block contests say what decided them.

(function (D) {
  "use strict";
  const { h } = D;
  const ROWS = 6;

  D.ContestView = class ContestView {
    constructor(actions) {
      this.actions = actions; // { open(slot, key) }
      this.title = h("h3", {});
      this.what = h("p", { class: "note" });
      this.tabs = h("div", { class: "tabs", role: "group", "aria-label": "Contests of this round" });
      this.body = h("div", { class: "contest-body", tabindex: "0", role: "group" });
      this.root = h("section", { class: "card contest" },
        h("header", { class: "card-head" }, h("div", { class: "head-text" }, this.title, this.what)), this.tabs, this.body);
      this.step = 0;
    }

    paint(selection) {
      const round = selection && selection.lane.rounds[selection.round];
      const stamp = round ? `${selection.lane.name}/${selection.lane.start?.run}/${round.index}/${selection.slot}/${selection.key}` : "";
      if (stamp === this.stamp) return;
      this.stamp = stamp;
      if (!round) {
        D.setText(this.title, "The contest");
        D.setText(this.what, "");
        this.tabs.replaceChildren();
        return this.body.replaceChildren();
      }
      const contest = D.contestOf(round, selection.slot);
      const after = D.slotRaw(selection.lane, round, selection.slot);
      D.setText(this.title, `The contest after ${after.prompt ? "the prompt" : after.text}`);
      this.body.setAttribute("aria-label", this.title.textContent);
      this.paintTabs(selection, round);
      const view = { lane: selection.lane, round, contest, slot: selection.slot, key: selection.key };
      if (!contest || !contest.laws.length) return this.show("nothing was drafted here", ownToken(view));
      const child = contest.children.findIndex((c) => c.node === selection.key);
      view.step = Math.max(0, Math.min(child >= 0 ? child : selection.key === "last" ? contest.children.length - 1 : 0, contest.laws.length - 1));
      const forms = { greedy: greedyForm, deterministic: deterministicForm, block: blockForm, token: coinForm, rrsw: coinForm };
      this.show(D.ruleWords[contest.rule], (forms[contest.rule] || coinForm)(view, this.actions));
    }

    show(words, parts) {
      D.setText(this.what, words);
      this.body.replaceChildren(...parts.filter(Boolean));
    }

    paintTabs(selection, round) {
      const slots = D.slotsOf(round);
      const block = round.contests.some((c) => c.rule === "block"); // its coins are the tabs
      this.tabs.replaceChildren(...(slots.length < 2 || (block && round.last.kind !== "bonus") ? [] : slots.map((slot) => {
        const after = D.slotRaw(selection.lane, round, slot);
        return h("button", { type: "button", class: "chip", "aria-pressed": String(slot === selection.slot), text: D.shorten(after.text, 10), "aria-label": `Contest after ${after.text}`,
          on: { click: () => this.actions.open(slot, null) } });
      })));
    }
  };

  D.ruleWords = {
    token: "token rule: accept if the coin is below min(1, p/q)",
    block: "block rule: one coin a position, the last that passes decides",
    rrsw: "siblings in turn, without replacement; each faces what the others left",
    deterministic: "the draft was not drawn: the target draws its own token and looks for it",
    greedy: "greedy: the target's best token, no chance involved",
  };

  const nodeOf = (round, id) => round.nodes.find((n) => n.id === id);
  const tokenOf = (round, id) => { const n = nodeOf(round, id); return n ? n.token : -1; };
  const name = (raw) => D.visible(raw);

  // Laws: one row a token.

  /** The rows to show: the likeliest, the children's, the outcome's; then everything else as one row. */
  function rowsOf(laws, wanted) {
    const shown = new Set(laws.ids.slice(0, ROWS));
    for (const id of wanted) if (laws.ids.includes(id)) shown.add(id);
    const rows = [];
    const rest = { p: laws.rest_p, q: laws.rest_q ?? null, min: laws.rest_min ?? null, count: 0 };
    laws.ids.forEach((id, i) => {
      const p = laws.p[i];
      const q = laws.q ? laws.q[i] : null;
      if (shown.has(id)) rows.push({ id, raw: laws.raw[i], p, q, min: q === null ? p : Math.min(p, q) });
      else {
        rest.p += p;
        if (q !== null) {
          rest.q += q;
          rest.min += Math.min(p, q);
        }
        rest.count += 1;
      }
    });
    return { rows, rest };
  }

  function agreement(laws) {
    if (!laws.q) return null;
    return laws.p.reduce((sum, p, i) => sum + Math.min(p, laws.q[i]), laws.rest_min || 0);
  }

  /** Bars of p and q overlaid, or of p alone. `marks`: token id -> [class, words]. */
  function bars(laws, marks, overlay) {
    const { rows, rest } = rowsOf(laws, marks.keys());
    const both = overlay && laws.q;
    const all = [...rows, { ...rest, id: null, min: rest.min === null ? rest.p : rest.min }];
    // one ruler for all tokens; where "all others" would reach beyond it, that row has its own, and says so
    const most = Math.max(1e-9, ...rows.map((r) => Math.max(r.p, r.q || 0)));
    const table = h("div", { class: "bars", role: "table", "aria-label": "Probabilities" });
    for (const row of all) {
      if (row.id === null && row.p < 5e-4 && (row.q || 0) < 5e-4) continue;
      const mark = marks.get(row.id);
      const extent = both ? row.p + row.q - row.min : Math.max(row.p, row.q || 0);
      const beyond = extent > most * 1.0001;
      const ruler = beyond ? extent : most;
      const pct = (x) => `${(100 * x) / ruler}%`;
      const bar = h("div", { class: beyond ? "bar beyond" : "bar", "aria-hidden": "true" });
      if (both) {
        bar.append(h("i", { class: "min", style: { width: pct(row.min) } }));
        // "all others" may hold excesses of both kinds at once; single tokens hold one
        let at = row.min;
        for (const [kind, size] of [["over-q", row.q - row.min], ["over-p", row.p - row.min]]) {
          if (size > ruler * 1e-4) bar.append(h("i", { class: kind, style: { left: pct(at), width: pct(size) } }));
          if (size > 0) at += row.id === null ? size : 0;
        }
      } else {
        bar.append(h("i", { class: "ink", style: { width: pct(row.p) } }));
        if (laws.q) bar.append(h("i", { class: "thin-q", style: { width: pct(row.q) } }));
      }
      const figures = laws.q ? `p ${D.prob(row.p)}  q ${D.prob(row.q)}` : `p ${D.prob(row.p)}`;
      table.append(h("div", { class: `bar-row${mark ? " marked" : ""}`, role: "row" },
        h("span", { class: `mark ${mark ? mark[0] : ""}`, role: "cell", text: mark ? D.FATES[mark[0]].glyph || "•" : "", title: mark ? mark[1] : null, "aria-label": mark ? mark[1] : null }),
        h("span", { class: "token", role: "rowheader", text: row.id === null ? (beyond ? "others ∗" : "all others") : D.shorten(name(row.raw), 12), title: row.id === null ? null : name(row.raw) }),
        bar, h("span", { class: "pq", role: "cell", text: figures })));
    }
    table.dataset.own = String(Boolean(table.querySelector(".beyond")));
    return table;
  }

  function key(overlay, twin, table) {
    const own = table.dataset.own === "true" ? h("span", { class: "key", text: "∗ on its own ruler" }) : null;
    const entry = (kind, words) => h("span", { class: "key" }, h("i", { class: `swatch ${kind}` }), words);
    return overlay
      ? h("p", { class: "legend" }, entry("min", "both, min(p, q)"), entry("over-q", "q − p, too sure"), entry("over-p", "p − q, residual"), own)
      : h("p", { class: "legend" }, entry("ink", "target p"), twin ? entry("thin-q", "draft q") : null, own);
  }

  /** Bars and what they mean. */
  function drawn(laws, marks, overlay) {
    const table = bars(laws, marks, overlay);
    return [table, key(overlay && laws.q, Boolean(laws.q), table)];
  }

  function sums(laws, first) {
    const alpha = agreement(laws);
    if (alpha === null) return null;
    return h("p", { class: "sum" }, h("b", { text: `α = Σ min(p, q) = ${D.prob(alpha)}` }),
      ` · each hatched area sums to ${D.prob(1 - alpha)}${first ? "" : ", in the laws that earlier rejections left"}`);
  }

  // The coin on its line: [0, threshold) accepts.

  function coinLine({ label, threshold, coin, passed, words, chosen, open }) {
    const accept = Math.max(0, Math.min(1, threshold));
    return h("button", { type: "button", class: `coin-row ${passed ? "accepted" : "rejected"}${chosen ? " sel" : ""}`, on: { click: open },
      "aria-label": `${label}: coin ${D.prob(coin)}, threshold ${D.prob(threshold)}, ${passed ? "passes" : "fails"}` },
      h("span", { class: "verdict", text: passed ? "✓" : "✗", "aria-hidden": "true" }),
      h("span", { class: "token", text: D.shorten(label, 12) }),
      h("span", { class: "coin-track", "aria-hidden": "true" },
        h("i", { class: "win", style: { width: `${100 * accept}%` } }),
        h("i", { class: "coin", style: { left: `${100 * coin}%` } })),
      h("span", { class: "words", text: words }));
  }

  function outcome(view) {
    const { round, slot, contest } = view;
    if (round.last.slot !== slot) return [];
    if (round.emitted.length <= round.accepted) return [];
    const words = round.last.kind === "correction"
      ? ["correction", "↻", `${contest.children.length > 1 ? "All were" : "It was"} rejected: ${name(round.last.raw)} is drawn from the residual, what p holds above q.`]
      : ["bonus", "+", `Nothing was drafted below: ${name(round.last.raw)} is drawn from p itself.`];
    return [h("p", { class: "outcome" }, h("span", { class: `glyph ${words[0]}`, text: words[1], "aria-hidden": "true" }), " " + words[2])];
  }

  // Token rule and siblings without replacement.

  function coinForm(view, actions) {
    const { round, contest, slot, step } = view;
    const laws = contest.laws[step];
    const marks = marksOf(view, laws);
    const lines = contest.children.map((child, i) => {
      const node = nodeOf(round, child.node);
      const ratio = contest.rule === "token" || i === 0 ? "min(1, p/q)" : "residual min(1, P/Q)";
      return coinLine({ label: name(node.raw), threshold: child.threshold ?? 0, coin: child.coin ?? 0, passed: child.passed, chosen: i === step && contest.children.length > 1,
        words: `${ratio} = ${D.prob(child.p)} / ${D.prob(child.q)} → ${D.prob(child.threshold)}, coin ${D.prob(child.coin)}`, open: () => actions.open(slot, child.node) });
    });
    return [h("div", { class: "coins" }, lines), ...outcome(view), ...drawn(laws, marks, true), sums(laws, step === 0)];
  }

  function marksOf(view, laws) {
    const { round, contest, slot } = view;
    const marks = new Map();
    contest.children.forEach((child) => marks.set(tokenOf(round, child.node), child.passed ? ["accepted", "drafted ✓"] : ["rejected", "drafted ✗"]));
    if (round.last.slot === slot && round.emitted.length > round.accepted) {
      const kind = round.last.kind;
      marks.set(round.last.token, [kind, kind === "correction" ? "drawn ↻" : "drawn +"]);
    }
    return marks;
  }

  // Block: the chain as a whole.

  function blockForm(view, actions) {
    const { round, contest, slot, step } = view;
    const chain = round.contests.filter((c) => c.rule === "block");
    const lines = chain.flatMap((c, at) => c.children.map((child) => {
      const node = nodeOf(round, child.node);
      return coinLine({ label: `${at + 1} ${name(node.raw)}`, threshold: child.threshold ?? 0, coin: child.coin ?? 0, passed: child.passed, chosen: c.slot === slot,
        words: `weight ${D.prob(child.weight)}, h = ${D.prob(child.threshold)}, coin ${D.prob(child.coin)}`, open: () => actions.open(c.slot, child.node) });
    }));
    const passes = chain.flatMap((c) => c.children).map((child) => child.passed);
    const tau = passes.lastIndexOf(true) + 1;
    const rescued = passes.slice(0, tau).filter((p) => !p).length;
    const verdict = tau === 0 ? "No coin passed: nothing of the block is accepted."
      : `The last coin that passes is number ${tau}: ${tau === 1 ? "it is accepted" : `all ${tau} up to it are accepted`}${rescued ? `, ${rescued} of them although their own coin failed` : ""}.`;
    const laws = contest.laws[step];
    const marks = new Map();
    contest.children.forEach((child) => {
      const node = nodeOf(round, child.node);
      const stands = node.fate === "accepted";
      marks.set(node.token, stands ? ["accepted", "drafted ✓"] : ["rejected", "drafted ✗"]);
    });
    if (round.last.slot === slot && round.emitted.length > round.accepted) marks.set(round.last.token, [round.last.kind, round.last.kind === "correction" ? "drawn ↻" : "drawn +"]);
    const own = round.last.slot === slot && round.last.kind === "correction" && round.emitted.length > round.accepted
      ? h("p", { class: "outcome" }, h("span", { class: "glyph correction", text: "↻", "aria-hidden": "true" }), ` ${name(round.last.raw)} was drawn from the block's residual: what weight × p holds above q.`) : null;
    return [h("div", { class: "coins" }, lines), h("p", { class: "outcome", text: verdict }), ...drawn(laws, marks, true), own,
      h("p", { class: "sum", text: "p and q at this position. The block is judged as a whole: the weight carries the ratio p/q of the positions before, and h adds what the next position can still win back." })];
  }

  // Greedy: no coin.

  function greedyForm(view) {
    const { round, contest, slot } = view;
    const laws = contest.laws[0];
    const marks = new Map();
    contest.children.forEach((child) => marks.set(tokenOf(round, child.node), child.passed ? ["accepted", "drafted ✓"] : ["rejected", "drafted ✗"]));
    const choice = contest.draw;
    const agreed = contest.children.find((child) => tokenOf(round, child.node) === choice);
    if (choice !== null && choice !== undefined) marks.set(choice, agreed ? ["accepted", "best, drafted ✓"] : [lastKind(round, slot), "target's best"]);
    const said = contest.children.map((child) => name(nodeOf(round, child.node).raw)).join(", ");
    const best = rawOf(round, laws, choice);
    const words = !contest.children.length ? `The target's best token is ${best}.`
      : agreed ? `The target's best token is ${best}, and the draft had it: accepted.`
      : `The target's best token is ${best}; the draft had ${said}: rejected.`;
    return [h("p", { class: "outcome", text: words }), ...drawn(laws, marks, false),
      h("p", { class: "sum" }, laws.scale === "before_argmax" ? "Shown before the argmax; at temperature 0 all of the law lies on the best token." : "",
        Number.isFinite(contest.gap) ? ` Its logit leads the second by ${D.figure(contest.gap)}.` : "")];
  }

  const lastKind = (round, slot) => (round.last.slot === slot ? round.last.kind : "unvisited");

  function rawOf(round, laws, id) {
    if (round.last.token === id) return name(round.last.raw);
    const at = laws ? laws.ids.indexOf(id) : -1;
    return at >= 0 ? name(laws.raw[at]) : `token ${id}`;
  }

  // Deterministic children: the target's own draw decides.

  function deterministicForm(view) {
    const { round, contest, slot } = view;
    const laws = contest.laws[0];
    const marks = new Map();
    contest.children.forEach((child) => marks.set(tokenOf(round, child.node), child.passed ? ["accepted", "drafted ✓"] : ["rejected", "drafted ✗"]));
    const agreed = contest.children.find((child) => tokenOf(round, child.node) === contest.draw);
    if (contest.draw !== null && contest.draw !== undefined) marks.set(contest.draw, agreed ? ["accepted", "drawn, drafted ✓"] : [lastKind(round, slot), "drawn from p"]);
    const mass = round.nodes.filter((n) => n.parent === slot && n.fate !== "scout").reduce((sum, n) => sum + n.p, 0);
    const own = rawOf(round, laws, contest.draw);
    return [
      h("p", { class: "outcome", text: `The target drew ${own} from p: ${agreed ? "a child carries it, so it is accepted" : "no child carries it, so it is the round's own token"}.` }),
      ...drawn(laws, marks, false),
      h("p", { class: "sum" }, h("b", { text: `Σ p(drafted) = ${D.prob(mass)}` }), " · the chance that the draw lands on a child. The draft's own certainty plays no part."),
    ];
  }

  // No contest: the round's own token from the target's law.

  function ownToken(view) {
    const { round, slot } = view;
    if (round.last.slot !== slot) return [];
    const kept = round.emitted.length > round.accepted;
    const laws = round.last.laws;
    const kind = round.last.kind;
    const greedy = round.last.coin === null || round.last.coin === undefined;
    const how = greedy ? "the target's best token" : kind === "correction" ? "drawn from the residual" : "drawn from p";
    const why = { bonus: "The row below the last accepted token came with the same forward: ", plain: "", correction: "" }[kind];
    const words = `${why}${name(round.last.raw)} is ${how}.${kept ? "" : " It was discarded: the text had ended before it."}`;
    const marks = new Map([[round.last.token, [kind, greedy ? "best" : kind === "bonus" ? "drawn +" : "drawn"]]]);
    return [h("p", { class: "outcome" }, kind === "bonus" ? h("span", { class: "glyph bonus", text: "+", "aria-hidden": "true" }) : null, (kind === "bonus" ? " " : "") + words),
      ...(laws ? drawn(laws, marks, false) : []),
      laws && laws.scale === "before_argmax" ? h("p", { class: "sum", text: "Shown before the argmax; at temperature 0 all of the law lies on the best token." }) : null];
  }
})(window.Draftscope);
