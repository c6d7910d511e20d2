// What the forms of several rules are made of.

import { FATES } from "../base/fates.js";
import { formatProb, shorten, visible } from "../base/format.js";
import { fateAt } from "../base/stages.js";
import { childrenOf } from "../base/store.js";
import { html, nothing } from "../vendor/lit-html.js";

export const MANY = 2; // more lines than these say their numbers only where they are chosen

export const siblings = (view) => childrenOf(view.round, view.slot);

/** The round's own token was sampled or chosen at this slot, and may be shown. */
export const lastHere = ({ round, slot, known }) =>
  known.result && round.last.slot === slot && round.emitted.length > round.accepted;

/** What came of a decision, in words; behind the glyph of a fate if there is one. */
export const outcomeLine = (words, fate) =>
  html`<p class="outcome">
    ${fate ? html`<span class="glyph ${fate}" aria-hidden="true">${FATES[fate].glyph}</span> ` : nothing}${words}
  </p>`;

export const note = (words) => html`<p class="sum">${words}</p>`;

export const ARGMAX = "Shown before the argmax; at temperature 0 the most probable token has probability 1.";

/** A random number on its line, of which [0, threshold) accepts. */
export function uniformLine({ label, child, decided, words, chosen, open, fate: givenFate, result }) {
  const { threshold, uniform, passed } = child;
  const accept = Math.max(0, Math.min(1, threshold ?? 0));
  const fate = givenFate ?? (!decided ? "" : passed ? "accepted" : "rejected");
  const glyph = fate ? FATES[fate].glyph : decided ? "" : "?";
  const drawn = decided ? `u ${formatProb(uniform)}` : "u not drawn yet";
  const all = `${words}, ${drawn}${decided && result ? `: ${result}` : ""}`;
  const verdict = decided ? `, ${passed ? "passes" : "fails"}` : "";
  return html`<button
    type="button"
    class="uniform-row ${fate} ${chosen ? "sel" : ""}"
    title=${all}
    aria-label="${label}: threshold ${formatProb(threshold)}, ${drawn}${verdict}"
    @click=${open}
  >
    <span class="result" aria-hidden="true">${glyph}</span>
    <span class="token">${shorten(label, 12)}</span>
    <span class="uniform-track" aria-hidden="true">
      <i class="win" style="width: ${100 * accept}%"></i>
      ${decided ? html`<i class="uniform" style="left: ${100 * (uniform ?? 0)}%"></i>` : nothing}
    </span>
    <span class="words">${all}</span>
  </button>`;
}

/** A child that is not verified yet. */
export const waitingLine = (node, words) =>
  html`<div class="uniform-row waiting">
    <span class="result" aria-hidden="true">◦</span>
    <span class="token">${shorten(visible(node.raw), 12)}</span>
    <span class="words">${words}</span>
  </div>`;

/** Which tokens of a distribution are pointed at: the drafted ones with their fate so far, and the round's own. */
export function marksOf(view) {
  const { round, known } = view;
  const marks = new Map();
  for (const node of siblings(view)) {
    const fate = fateAt(round, known, node);
    marks.set(node.token, [fate, `drafted ${FATES[fate].glyph || "·"}`]);
  }
  const { kind, token } = round.last;
  if (lastHere(view)) marks.set(token, [kind, kind === "correction" ? "sampled ↻" : "sampled +"]);
  return marks;
}
