// What can be simulated from a decision's recorded probabilities: ten thousand samples by its rule or by a wrong one,
// and another value of u.
//
// None of it happened in the run, and the page says so. Every draw starts from the recorded probs; the seed is shown.

import { button, h, remark, setText } from "../base/dom.js";
import { formatProb, shorten, visible } from "../base/format.js";
import { shareBars } from "../draw/shares.js";
import { LOSSY } from "../base/rules.js";
import { childrenOf, decisionAt, nodeOf, slotRaw } from "../base/store.js";
import { distanceFrom, lump, uniformStream } from "./distributions.js";
import {
  blockLengths,
  blockOnce,
  decideAgain,
  decideBlockAgain,
  lossyAccept,
  lossyLast,
  lossyOnce,
  sampledOnce,
  topKOnce,
} from "./rules.js";

const DRAWS = 10000;
const BATCH = 250; // a frame
const ROWS = 6;
const WRONG = "last token from p";
const CERTAIN = 0.99; // p of one token, from which the wrong rule is wrong too seldom for these draws to show it

export class TrialView {
  /** `goTo(lane, place)` shows another round. */
  constructor(goTo) {
    this.goTo = goTo;
    this.root = h("div.sheet.trial");
  }

  /** Made anew for another decision or another child; results stay until then. */
  paint({ selection, known }) {
    const stamp = selection
      ? `${selection.lane.start?.run}/${selection.lane.name}/${selection.round}/${selection.slot}/${selection.key}/${known.result}`
      : "";
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    this.root.replaceChildren(...(selection ? parts(selection, known, this.goTo) : []));
  }
}

function parts({ lane, round: index, slot, key }, known, goTo) {
  const round = lane.rounds[index];
  const decision = decisionAt(round, slot);
  const said = (text) => [h("p.sum", text)];
  if (!known.result) return said("The result is still hidden.");
  if (!decision) return said("Nothing was drafted here, so there was no decision. Choose one above.");
  if (decision.rule === "greedy")
    return said("Greedy: every sample is the target's most probable token. Choose a run above temperature 0.");
  const step = Math.max(
    0,
    decision.children.findIndex((child) => child.node === key),
  );
  const view = { round, decision, slot, step };
  const after = slotRaw(lane, round, slot);
  return [
    h(
      "p.note",
      `Round ${index + 1}, the decision after ${after.prompt ? "the prompt" : `“${after.text}”`}. None of this happened in the run: it is simulated from the recorded probabilities.`,
    ),
    certainty(view, lane, goTo),
    h(
      "div.twofold",
      decision.rule === "deterministic" ? null : reflip(view),
      LOSSY.includes(decision.rule)
        ? lossyDraws(view, lane)
        : decision.rule === "block"
          ? blockDraws(view)
          : tokenDraws(view),
    ),
  ];
}

const likeliestOf = (decision) => Math.max(...decision.distributions[0].p);

/** The decision of this lane that leaves most open, as the cursor's place; null where none leaves more than `CERTAIN`. */
function openest(lane) {
  const every = lane.rounds.flatMap((round) =>
    round.decisions
      .filter((decision) => decision.children.length && decision.rule !== "block" && decision.rule !== "greedy")
      .map((decision) => ({ round, decision, most: likeliestOf(decision) })),
  );
  const least = every.reduce((best, candidate) => (candidate.most < best.most ? candidate : best), { most: CERTAIN });
  return least.decision ? { round: least.round.index, slot: least.decision.slot } : null;
}

/** Where hardly anything is left to chance: that no draws can tell, and where they could. */
function certainty({ decision }, lane, goTo) {
  if (decision.rule === "block" || likeliestOf(decision) < CERTAIN) return null;
  const place = openest(lane);
  const words = `One token has p ${formatProb(likeliestOf(decision))}: a wrong rule draws it nearly as often, so ${DRAWS.toLocaleString("en")} samples cannot tell it from the right one here.`;
  return h(
    "div.controls.certain",
    h("span.sum", words + (place ? "" : " This run has no decision that leaves more open.")),
    place ? button(`Go to round ${place.round + 1}, which leaves more open`, () => goTo(lane, place)) : null,
  );
}

// Ten thousand draws.

function tokenDraws(view) {
  const { decision, round, slot } = view;
  const probs = decision.distributions[0];
  const lumped = lump(probs);
  const children = childrenOf(round, slot).map((n) => n.token);
  const places = children.map((token) => probs.ids.indexOf(token));
  const once =
    decision.rule === "deterministic"
      ? (wrong, uniform) => topKOnce(lumped, places, wrong, uniform)
      : (wrong, uniform) => sampledOnce(lumped, children.length, wrong, uniform);
  return drawsOf(probs, places, lumped, once, ["this rule", `wrong: ${WRONG}`]);
}

/** Draws of tokens: the likeliest and the drafted ones at `places` by name, all others as one. */
function drawsOf(probs, places, lumped, once, rules) {
  const likely = [...probs.ids.keys()].sort((a, b) => probs.p[b] - probs.p[a]);
  const shown = [...new Set([...likely.slice(0, ROWS), ...places])];
  const group = (values) => [
    ...shown.map((i) => values[i]),
    values.reduce((sum, x, i) => (shown.includes(i) ? sum : sum + x), 0),
  ];
  const names = [...shown.map((i) => visible(probs.raw[i])), "all others"];
  return draws({ distribution: lumped.p, group, names, once, rules, what: "p" });
}

/** A lossy rule beside the token rule, whose samples match p. */
function lossyDraws(view, lane) {
  const { decision, round } = view;
  const probs = decision.distributions[0];
  const lumped = lump(probs);
  const accept = lossyAccept(decision, lumped, lane.start?.settings?.lenience);
  if (!accept)
    return remark("The recording leaves out tokens that this rule treats differently, so it cannot be simulated here.");
  const last = lossyLast(decision.rule, lumped);
  const drafted = childrenOf(round, view.slot).map((n) => probs.ids.indexOf(n.token));
  const once = (exact, uniform) =>
    exact ? sampledOnce(lumped, 1, false, uniform) : lossyOnce(lumped, accept, last, uniform);
  return drawsOf(probs, drafted, lumped, once, ["this rule, lossy", "the token rule"]);
}

function blockDraws(view) {
  const thresholds = view.round.decisions.filter((c) => c.rule === "block").map((c) => c.children[0].threshold ?? 0);
  const names = [0, ...thresholds.keys()].map((_, k) => `${k} accepted`);
  return draws({
    distribution: blockLengths(thresholds),
    group: (values) => values,
    names,
    once: (_, uniform) => blockOnce(thresholds, uniform),
    rules: ["this block"],
    what: "the thresholds",
  });
}

function draws({ distribution, group, names, once, rules, what }) {
  const out = h("div.draws", { "aria-live": "polite" });
  let seed = 0;
  let frame = 0;
  const go = (wrong) => {
    cancelAnimationFrame(frame);
    seed += 1;
    const uniform = uniformStream(seed);
    const counts = distribution.map(() => 0);
    const at = { seed, n: 0 };
    const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    const more = () => {
      const upTo = still ? DRAWS : Math.min(DRAWS, at.n + BATCH);
      for (; at.n < upTo; at.n++) counts[once(wrong, uniform)] += 1;
      out.replaceChildren(
        ...settled(group(counts), group(distribution), names, at, distanceFrom(counts, distribution), what),
      );
      out.dataset.n = at.n;
      if (at.n < DRAWS && out.isConnected) frame = requestAnimationFrame(more);
    };
    more();
  };
  return h(
    "div.draw",
    h(
      "div.controls",
      h("b", "Sample 10,000 times"),
      rules.map((text, i) => button(text, () => go(i === 1))),
    ),
    out,
  );
}

function settled(counts, distribution, names, { n, seed }, { distance, chance }, what) {
  const rows = names.map((name, i) => {
    const p = distribution[i];
    const got = counts[i] / n;
    return { name, wanted: p, got, far: Math.abs(got - p) > 4 * Math.sqrt(Math.max(p * (1 - p), 1e-9) / n) };
  });
  const result = distance > 3 * chance ? `The samples miss ${what}` : `The samples match ${what}`;
  return [
    shareBars("Shares of the samples", rows, what),
    h(
      "p.sum",
      h("b", `${result}: total variation ${formatProb(distance)}`),
      `; chance alone gives about ${formatProb(chance)} for ${n.toLocaleString("en")} samples. Simulated here from the recorded probabilities, seed ${seed}; ≠ marks more than four standard errors.`,
    ),
  ];
}

// Another value of u.

function reflip(view) {
  const { decision, round, step, slot } = view;
  const block = decision.rule === "block";
  const chain = round.decisions.filter((c) => c.rule === "block");
  const index = block ? chain.indexOf(decision) : step;
  const child = decision.children[block ? 0 : step];
  if (!child || !Number.isFinite(child.uniform) || !Number.isFinite(child.threshold)) return null; // no random number was used
  const label = visible(nodeOf(round, child.node).raw);
  const siblings = childrenOf(round, slot);
  const words = h(
    "p.sum",
    { "aria-live": "polite" },
    "Move u across its threshold to see what would have followed, as far as it was recorded.",
  );
  const uniform = h("input", {
    type: "range",
    min: "0",
    max: "0.999",
    step: "0.001",
    value: String(child.uniform),
    "aria-label": `Random number u of ${label}`,
  });
  const tell = () => {
    const u = Number(uniform.value);
    uniform.setAttribute("aria-valuetext", formatProb(u));
    setText(words, block ? blockWords(chain, index, u) : tokenWords(decision, step, u, siblings));
  };
  uniform.addEventListener("input", tell);
  const toss = button("Resample u", () => {
    uniform.value = String(Math.random());
    tell();
  });
  return h("div.reflip", h("div.controls", h("b", `What if: u of ${shorten(label, 12)}`), uniform, toss), words);
}

function tokenWords(decision, step, u, siblings) {
  const child = decision.children[step];
  const result = decideAgain(
    decision,
    step,
    u,
    siblings.map((n) => n.token),
  );
  const start = `u ${formatProb(u)}, threshold ${formatProb(child.threshold)}: `;
  if (result.same) return `${start}${result.passed ? "accepted" : "rejected"}, as in the run.`;
  if (result.passed) return `${start}accepted. What follows below it was not verified: the recording ends here.`;
  if (result.next)
    return `${start}rejected. ${visible(siblings[step + 1].raw)} would be next, with P ${formatProb(result.next.p)} and Q ${formatProb(result.next.q)}: threshold ${formatProb(result.next.threshold)}. Its u was never drawn: the recording ends here.`;
  return `${start}rejected. The correction would be sampled from the residual distribution: ${likeliest(result.distribution, decision.distributions[step])}. The recording ends here.`;
}

function blockWords(chain, index, u) {
  const { tau, distribution } = decideBlockAgain(chain, index, u);
  const start = `u of position ${index + 1} at ${formatProb(u)}, threshold ${formatProb(chain[index].children[0].threshold)}: `;
  const recorded = chain.map((c) => c.children[0].passed).lastIndexOf(true) + 1;
  if (tau === recorded) return `${start}${tau} of ${chain.length} accepted, as in the run.`;
  const next = distribution
    ? `the next token would be sampled from ${likeliest(distribution, chain[tau].distributions[0])}`
    : "the bonus token would be sampled from a distribution that was not recorded";
  return `${start}${tau} of ${chain.length} would be accepted instead of ${recorded}; ${next}. The recording ends here.`;
}

function likeliest(distribution, probs) {
  const order = [...probs.ids.keys()].sort((a, b) => distribution[b] - distribution[a]).slice(0, 3);
  return order.map((i) => `${visible(probs.raw[i])} ${formatProb(distribution[i])}`).join(", ") + " …";
}
