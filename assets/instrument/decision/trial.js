// What can be simulated from a decision's recorded probabilities: ten thousand samples by its rule or by a wrong one,
// and another value of u.
//
// None of it happened in the run, and the page says so. Every draw starts from the recorded probs; the seed is shown.

import { h } from "../base/dom.js";
import { formatProb, shorten, visible } from "../base/format.js";
import { shareBars } from "../draw/shares.js";
import { LOSSY } from "../base/rules.js";
import { childrenOf, decisionAt, nodeOf, slotRaw } from "../base/store.js";
import { quoted, smallButton } from "../base/templates.js";
import { html, nothing, render } from "../vendor/lit-html.js";
import { distanceFrom, lump, uniformStream } from "./distributions.js";
import { note } from "./lines.js";
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
} from "./sampled-rules.js";

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

  /** Results stay until another decision or another child is shown. */
  paint({ selection, known }) {
    const { lane, round, slot, key } = selection || {};
    const place = selection ? `${lane.start?.run}/${lane.name}/${round}/${slot}/${key}/${known.result}` : "";
    if (place !== this.place) Object.assign(this, { place, uniform: null, seed: 0, samples: null });
    this.seen = { selection, known };
    render(selection ? this.parts(selection, known) : nothing, this.root);
  }

  change(state) {
    Object.assign(this, state);
    this.paint(this.seen);
  }

  parts({ lane, round: index, slot, key }, known) {
    const round = lane.rounds[index];
    const decision = decisionAt(round, slot);
    if (!known.result) return note("The result is still hidden.");
    if (!decision) return note("Nothing was drafted here, so there was no decision. Choose one above.");
    const { rule, children } = decision;
    if (rule === "greedy")
      return note("Greedy: every sample is the target's most probable token. Choose a run above temperature 0.");
    const step = children.findIndex(({ node }) => node === key);
    const view = { round, decision, slot, step: Math.max(0, step) };
    const after = slotRaw(lane, round, slot);
    const where = `Round ${index + 1}, the decision after ${after.prompt ? "the prompt" : `“${after.text}”`}.`;
    return html`
      <p class="note">${where} None of this happened in the run: it is simulated from the recorded probabilities.</p>
      ${certainty(view, lane, this.goTo)}
      <div class="twofold">${rule === "deterministic" ? nothing : this.reflip(view)} ${this.draws(view, lane)}</div>
    `;
  }

  /** Ten thousand draws, some each frame. */
  draws(view, lane) {
    const { rule } = view.decision;
    const trial = LOSSY.includes(rule)
      ? lossyDraws(view, lane)
      : rule === "block"
        ? blockDraws(view)
        : tokenDraws(view);
    if (!trial) return note(UNRECORDED);
    const go = (i) => this.sample(trial, i === 1);
    return html`<div class="draw">
      <div class="controls">
        <b>Sample 10,000 times</b>
        ${trial.rules.map((words, i) => smallButton(words, () => go(i)))}
      </div>
      <div class="draws" aria-live="polite" data-n=${this.samples?.n ?? nothing}>
        ${this.samples ? settled(trial, this.samples) : nothing}
      </div>
    </div>`;
  }

  sample({ distribution, once }, wrong) {
    const seed = this.seed + 1;
    const samples = { counts: distribution.map(() => 0), seed, n: 0 };
    const uniform = uniformStream(seed);
    const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    Object.assign(this, { seed, samples });
    const more = () => {
      if (this.samples !== samples) return; // others were begun, or another decision is shown
      const upTo = still ? DRAWS : Math.min(DRAWS, samples.n + BATCH);
      for (; samples.n < upTo; samples.n++) samples.counts[once(wrong, uniform)] += 1;
      this.paint(this.seen);
      if (samples.n < DRAWS) requestAnimationFrame(more);
    };
    more();
  }

  /** Another value of u. */
  reflip({ decision, round, step, slot }) {
    const block = decision.rule === "block";
    const chain = round.decisions.filter((c) => c.rule === "block");
    const child = decision.children[block ? 0 : step];
    if (!child || !Number.isFinite(child.uniform) || !Number.isFinite(child.threshold)) return nothing; // no random number was used
    const label = visible(nodeOf(round, child.node).raw);
    const u = this.uniform;
    const follows = () =>
      block ? blockWords(chain, chain.indexOf(decision), u) : tokenWords(decision, step, u, childrenOf(round, slot));
    return html`<div class="reflip">
      <div class="controls">
        <b>What if: u of ${quoted(shorten(label, 12))}</b>
        <input
          type="range"
          min="0"
          max="0.999"
          step="0.001"
          .value=${String(u ?? child.uniform)}
          aria-label="Random number u of ${label}"
          aria-valuetext=${u === null ? nothing : formatProb(u)}
          @input=${({ target }) => this.change({ uniform: Number(target.value) })}
        />
        ${smallButton("Resample u", () => this.change({ uniform: Math.floor(1000 * Math.random()) / 1000 }))}
      </div>
      <p class="sum" aria-live="polite">${u === null ? MOVE : follows()}</p>
    </div>`;
  }
}

const MOVE = "Move u across its threshold to see what would have followed, as far as it was recorded.";
const UNRECORDED = "The recording leaves out tokens that this rule treats differently, so it cannot be simulated here.";

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
  if (decision.rule === "block" || likeliestOf(decision) < CERTAIN) return nothing;
  const place = openest(lane);
  const words = `One token has p ${formatProb(likeliestOf(decision))}: a wrong rule draws it nearly as often, so ${DRAWS.toLocaleString("en")} samples cannot tell it from the right one here.`;
  return html`<div class="controls certain">
    <span class="sum">${words}${place ? "" : " This run has no decision that leaves more open."}</span>
    ${place ? smallButton(`Go to round ${place.round + 1}, which leaves more open`, () => goTo(lane, place)) : nothing}
  </div>`;
}

// What is drawn: {distribution, group(values), names, once(wrong, uniform), rules, what}.

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
  return { distribution: lumped.p, group, names, once, rules, what: "p" };
}

/** A lossy rule beside the token rule, whose samples match p; null where the recording does not suffice. */
function lossyDraws(view, lane) {
  const { decision, round } = view;
  const probs = decision.distributions[0];
  const lumped = lump(probs);
  const accept = lossyAccept(decision, lumped, lane.start?.settings?.lenience);
  if (!accept) return null;
  const last = lossyLast(decision.rule, lumped);
  const drafted = childrenOf(round, view.slot).map((n) => probs.ids.indexOf(n.token));
  const once = (exact, uniform) =>
    exact ? sampledOnce(lumped, 1, false, uniform) : lossyOnce(lumped, accept, last, uniform);
  return drawsOf(probs, drafted, lumped, once, ["this rule, lossy", "the token rule"]);
}

function blockDraws(view) {
  const thresholds = view.round.decisions.filter((c) => c.rule === "block").map((c) => c.children[0].threshold ?? 0);
  const names = [0, ...thresholds.keys()].map((_, k) => `${k} accepted`);
  return {
    distribution: blockLengths(thresholds),
    group: (values) => values,
    names,
    once: (_, uniform) => blockOnce(thresholds, uniform),
    rules: ["this block"],
    what: "the thresholds",
  };
}

function settled({ distribution, group, names, what }, { counts, n, seed }) {
  const [wanted, came] = [group(distribution), group(counts)];
  const rows = names.map((name, i) => {
    const p = wanted[i];
    const got = came[i] / n;
    return { name, wanted: p, got, far: Math.abs(got - p) > 4 * Math.sqrt(Math.max(p * (1 - p), 1e-9) / n) };
  });
  const { distance, chance } = distanceFrom(counts, distribution);
  const result = distance > 3 * chance ? `The samples miss ${what}` : `The samples match ${what}`;
  const rest = `; chance alone gives about ${formatProb(chance)} for ${n.toLocaleString("en")} samples. Simulated here from the recorded probabilities, seed ${seed}; ≠ marks more than four standard errors.`;
  return html`${shareBars("Shares of the samples", rows, what)}
    <p class="sum"><b>${result}: total variation ${formatProb(distance)}</b>${rest}</p>`;
}

// What another value of u would have led to.

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
    return html`${start}rejected. ${quoted(visible(siblings[step + 1].raw))} would be next, with P
    ${formatProb(result.next.p)} and Q ${formatProb(result.next.q)}: threshold ${formatProb(result.next.threshold)}. Its
    u was never drawn: the recording ends here.`;
  return html`${start}rejected. The correction would be sampled from the residual distribution:
  ${likeliest(result.distribution, decision.distributions[step])}. The recording ends here.`;
}

function blockWords(chain, index, u) {
  const { tau, distribution } = decideBlockAgain(chain, index, u);
  const start = `u of position ${index + 1} at ${formatProb(u)}, threshold ${formatProb(chain[index].children[0].threshold)}: `;
  const recorded = chain.map((c) => c.children[0].passed).lastIndexOf(true) + 1;
  if (tau === recorded) return `${start}${tau} of ${chain.length} accepted, as in the run.`;
  const next = distribution
    ? html`the next token would be sampled from ${likeliest(distribution, chain[tau].distributions[0])}`
    : "the bonus token would be sampled from a distribution that was not recorded";
  return html`${start}${tau} of ${chain.length} would be accepted instead of ${recorded}; ${next}. The recording ends
  here.`;
}

function likeliest(distribution, probs) {
  const order = [...probs.ids.keys()].sort((a, b) => distribution[b] - distribution[a]).slice(0, 3);
  return [order.map((i) => html`${quoted(visible(probs.raw[i]))} ${formatProb(distribution[i])}, `), "…"];
}
