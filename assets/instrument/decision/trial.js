// What a contest's recorded laws still allow: ten thousand draws by its rule, or by a wrong one, and a coin tossed again.
//
// None of it happened in the run, and the page says so. Every draw starts from the recorded laws; the seed is shown.

import { h, setText } from "../base/dom.js";
import { formatProb, shorten, visible } from "../base/format.js";
import { LOSSY } from "../base/rules.js";
import { decisionAt, slotRaw } from "../base/store.js";
import {
  blockLengths,
  blockOnce,
  decideAgain,
  decideBlockAgain,
  distanceFrom,
  lump,
  sampledOnce,
  topKOnce,
  uniformStream,
} from "./distributions.js";
import { lossyAccept, lossyLast, lossyOnce } from "./lossy.js";

const DRAWS = 10000;
const BATCH = 250; // a frame
const ROWS = 6;
const WRONG = "last token from p";

export class TrialView {
  constructor() {
    this.root = h("div", { class: "sheet trial" });
  }

  /** Made anew for another contest or another of its children; what was tried stands until then. */
  paint({ selection, known }) {
    const stamp = selection
      ? `${selection.lane.start?.run}/${selection.lane.name}/${selection.round}/${selection.slot}/${selection.key}/${known.verdict}`
      : "";
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    this.root.replaceChildren(...(selection ? parts(selection, known) : []));
  }
}

function parts({ lane, round: index, slot, key }, known) {
  const round = lane.rounds[index];
  const contest = decisionAt(round, slot);
  const said = (text) => [h("p", { class: "sum", text })];
  if (!known.verdict) return said("First the verdict: it is still hidden.");
  if (!contest) return said("Nothing was drafted here, so there was no contest. Choose one above.");
  if (contest.rule === "greedy")
    return said(
      "Greedy: the target's best token stands whatever coin is tossed, so ten thousand draws are ten thousand times the same token. Choose a run above temperature 0.",
    );
  const step = Math.max(
    0,
    contest.children.findIndex((child) => child.node === key),
  );
  const view = { round, contest, slot, step };
  const after = slotRaw(lane, round, slot);
  return [
    h("p", {
      class: "note",
      text: `Round ${index + 1}, the contest after ${after.prompt ? "the prompt" : `“${after.text}”`}. None of this happened in the run: it is what the recorded laws allow.`,
    }),
    h(
      "div",
      { class: "twofold" },
      contest.rule === "deterministic" ? null : reflip(view),
      LOSSY.includes(contest.rule)
        ? lossyDraws(view, lane)
        : contest.rule === "block"
          ? blockDraws(view)
          : tokenDraws(view),
    ),
  ];
}

// Ten thousand draws.

function tokenDraws(view) {
  const { contest, round, slot } = view;
  const laws = contest.distributions[0];
  const lumped = lump(laws);
  const children = round.nodes.filter((n) => n.parent === slot && n.fate !== "never_accepted").map((n) => n.token);
  const places = children.map((token) => laws.ids.indexOf(token));
  const once =
    contest.rule === "deterministic"
      ? (wrong, coin) => topKOnce(lumped, places, wrong, coin)
      : (wrong, coin) => sampledOnce(lumped, children.length, wrong, coin);
  const shown = [
    ...new Set(
      [...laws.ids.keys()]
        .sort((a, b) => laws.p[b] - laws.p[a])
        .slice(0, ROWS)
        .concat(places),
    ),
  ];
  const group = (values) => [
    ...shown.map((i) => values[i]),
    values.reduce((sum, x, i) => (shown.includes(i) ? sum : sum + x), 0),
  ];
  const names = [...shown.map((i) => visible(laws.raw[i])), "all others"];
  return draws({ law: lumped.p, group, names, once, rules: ["by this rule", `wrong: ${WRONG}`], what: "p" });
}

/** A lossy rule beside the token rule, which settles on p from the same laws. */
function lossyDraws(view, lane) {
  const { contest, round } = view;
  const laws = contest.distributions[0];
  const lumped = lump(laws);
  const accept = lossyAccept(contest, lumped, lane.start?.settings?.lenience);
  if (!accept)
    return h("p", {
      class: "sum",
      text: "The record leaves out tokens that this rule would tell apart, so it cannot be tried from here.",
    });
  const last = lossyLast(contest.rule, lumped);
  const drafted = round.nodes
    .filter((n) => n.parent === view.slot && n.fate !== "never_accepted")
    .map((n) => laws.ids.indexOf(n.token));
  const shown = [
    ...new Set(
      [...laws.ids.keys()]
        .sort((a, b) => laws.p[b] - laws.p[a])
        .slice(0, ROWS)
        .concat(drafted),
    ),
  ];
  const group = (values) => [
    ...shown.map((i) => values[i]),
    values.reduce((sum, x, i) => (shown.includes(i) ? sum : sum + x), 0),
  ];
  const names = [...shown.map((i) => visible(laws.raw[i])), "all others"];
  const once = (exact, coin) => (exact ? sampledOnce(lumped, 1, false, coin) : lossyOnce(lumped, accept, last, coin));
  return draws({ law: lumped.p, group, names, once, rules: ["by this rule, lossy", "by the token rule"], what: "p" });
}

function blockDraws(view) {
  const thresholds = view.round.decisions.filter((c) => c.rule === "block").map((c) => c.children[0].threshold ?? 0);
  const names = [0, ...thresholds.keys()].map((_, k) => `${k} stand${k === 1 ? "s" : ""}`);
  return draws({
    law: blockLengths(thresholds),
    group: (values) => values,
    names,
    once: (_, coin) => blockOnce(thresholds, coin),
    rules: ["of this block's coins"],
    what: "the thresholds",
  });
}

function draws({ law, group, names, once, rules, what }) {
  const out = h("div", { class: "draws", "aria-live": "polite" });
  let seed = 0;
  let frame = 0;
  const go = (wrong) => {
    cancelAnimationFrame(frame);
    seed += 1;
    const coin = uniformStream(seed);
    const counts = law.map(() => 0);
    const at = { seed, n: 0 };
    const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    const more = () => {
      const upTo = still ? DRAWS : Math.min(DRAWS, at.n + BATCH);
      for (; at.n < upTo; at.n++) counts[once(wrong, coin)] += 1;
      out.replaceChildren(...settled(group(counts), group(law), names, at, distanceFrom(counts, law), what));
      out.dataset.n = at.n;
      if (at.n < DRAWS && out.isConnected) frame = requestAnimationFrame(more);
    };
    more();
  };
  return h(
    "div",
    { class: "draw" },
    h(
      "div",
      { class: "controls" },
      h("b", { text: "Draw 10,000" }),
      rules.map((text, i) => h("button", { class: "small", type: "button", text, on: { click: () => go(i === 1) } })),
    ),
    out,
  );
}

function settled(counts, law, names, { n, seed }, { found, chance }, what) {
  const most = Math.max(...law, ...counts.map((k) => k / n));
  const pct = (x) => `${(100 * x) / most}%`;
  const rows = names.map((name, i) => {
    const share = counts[i] / n;
    const far = Math.abs(share - law[i]) > 4 * Math.sqrt(Math.max(law[i] * (1 - law[i]), 1e-9) / n);
    return h(
      "div",
      { class: `bar-row share${far ? " far" : ""}`, role: "row" },
      h("span", { class: "mark", role: "cell", text: far ? "≠" : "", "aria-label": far ? `misses ${what}` : null }),
      h("span", { class: "token", role: "rowheader", text: shorten(name, 12), title: name }),
      h(
        "div",
        { class: "bar", "aria-hidden": "true" },
        h("i", { class: "wanted", style: { width: pct(law[i]) } }),
        h("i", { class: "got", style: { left: pct(share) } }),
      ),
      h("span", { class: "pq", role: "cell", text: `${formatProb(law[i])} → ${formatProb(share)}` }),
    );
  });
  const verdict = found > 3 * chance ? `The draws miss ${what}` : `The draws settle on ${what}`;
  return [
    h("div", { class: "bars", role: "table", "aria-label": "Shares of the draws" }, rows),
    h(
      "p",
      { class: "sum" },
      h("b", { text: `${verdict}: together ${formatProb(found)} away` }),
      `, where chance alone puts ${n.toLocaleString("en")} draws about ${formatProb(chance)}. Simulated here from the recorded laws, seed ${seed}; ≠ marks more than four standard errors.`,
    ),
  ];
}

// One coin, tossed again.

function reflip(view) {
  const { contest, round, step, slot } = view;
  const block = contest.rule === "block";
  const chain = round.decisions.filter((c) => c.rule === "block");
  const index = block ? chain.indexOf(contest) : step;
  const child = contest.children[block ? 0 : step];
  if (!child || !Number.isFinite(child.uniform) || !Number.isFinite(child.threshold)) return null; // no coin was tossed
  const label = visible(round.nodes.find((n) => n.id === child.node).raw);
  const siblings = round.nodes.filter((n) => n.parent === slot && n.fate !== "never_accepted");
  const words = h("p", {
    class: "sum",
    "aria-live": "polite",
    text: "Move the coin across its threshold: what would have followed, as far as the record goes.",
  });
  const coin = h("input", {
    type: "range",
    min: "0",
    max: "0.999",
    step: "0.001",
    value: String(child.uniform),
    "aria-label": `Coin of ${label}`,
  });
  const tell = () => {
    const u = Number(coin.value);
    coin.setAttribute("aria-valuetext", formatProb(u));
    setText(words, block ? blockWords(chain, index, u) : tokenWords(contest, step, u, siblings));
  };
  coin.addEventListener("input", tell);
  const toss = h("button", {
    class: "small",
    type: "button",
    text: "Re-flip",
    on: {
      click: () => {
        coin.value = String(Math.random());
        tell();
      },
    },
  });
  return h(
    "div",
    { class: "reflip" },
    h("div", { class: "controls" }, h("b", { text: `What if: the coin of ${shorten(label, 12)}` }), coin, toss),
    words,
  );
}

function tokenWords(contest, step, u, siblings) {
  const child = contest.children[step];
  const result = decideAgain(
    contest,
    step,
    u,
    siblings.map((n) => n.token),
  );
  const start = `Coin ${formatProb(u)}, threshold ${formatProb(child.threshold)}: `;
  if (result.same) return `${start}${result.passed ? "accepted" : "rejected"}, as in the run.`;
  if (result.passed) return `${start}accepted. What is judged below it was never recorded: the record ends here.`;
  if (result.next)
    return `${start}rejected. ${visible(siblings[step + 1].raw)} would be next, facing P ${formatProb(result.next.p)} and Q ${formatProb(result.next.q)}: threshold ${formatProb(result.next.threshold)}. Its coin was never tossed: the record ends here.`;
  return `${start}rejected. The correction would be drawn from the residual: ${likeliest(result.law, contest.distributions[step])}. The record ends here.`;
}

function blockWords(chain, index, u) {
  const { tau, law } = decideBlockAgain(chain, index, u);
  const start = `Coin ${index + 1} at ${formatProb(u)}, threshold ${formatProb(chain[index].children[0].threshold)}: `;
  const recorded = chain.map((c) => c.children[0].passed).lastIndexOf(true) + 1;
  if (tau === recorded) return `${start}${tau} of ${chain.length} stand, as in the run.`;
  const next = law
    ? `the next token would be drawn from ${likeliest(law, chain[tau].distributions[0])}`
    : "the bonus below the last draft would be drawn from a law that was not recorded";
  return `${start}${tau} of ${chain.length} would stand instead of ${recorded}; ${next}. The record ends here.`;
}

function likeliest(law, laws) {
  const order = [...laws.ids.keys()].sort((a, b) => law[b] - law[a]).slice(0, 3);
  return order.map((i) => `${visible(laws.raw[i])} ${formatProb(law[i])}`).join(", ") + " …";
}
