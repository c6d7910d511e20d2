// The lossy rules' own forms: what is compared with what, and that the distribution that is written is not the
// target's.
//
// Leniency compares u with min(1, p / (l q)); typical acceptance and top-k use no random number: p of the drafted token
// is compared against a number. engine/draftscope/verify/rules.py states all three.

import { formatProb, shorten, visible } from "../base/format.js";
import { nodeOf } from "../base/store.js";
import { quoted } from "../base/templates.js";
import { probabilityPicture } from "../draw/bars.js";

import { html, nothing } from "../vendor/lit-html.js";
import { lastHere, marksOf, note, outcomeLine, uniformLine } from "./lines.js";

export function lossyForm(view) {
  const { decision, known, lane, round } = view;
  const probs = decision.distributions[0];
  const child = decision.children[0];
  const decided = known.result || known.decided.has(child.node);
  const label = visible(nodeOf(round, child.node).raw);
  const l = lane.start?.settings?.lenience;
  const lenient = decision.rule === "lenient";
  const line = lenient
    ? uniformLine({
        label,
        child,
        decided,
        words: `min(1, p / (l q)) = ${formatProb(child.p)} / (${l ?? "l"} × ${formatProb(child.q)}) → ${formatProb(child.threshold)}`,
      })
    : comparison(decision.rule, child, label, decided, Math.max(...probs.p));
  const from = lenient ? "the residual distribution, norm((p − q)+)" : "p, not from a residual";
  const correction = html`It was rejected: ${quoted(visible(round.last.raw))} is sampled from ${from}.`;
  return html`
    <div class="uniforms">${line}</div>
    ${lastHere(view) ? outcomeLine(correction, "correction") : nothing}
    ${probabilityPicture(probs, marksOf(view), lenient)} ${note(meaning(decision.rule, lane))}
  `;
}

/** p of the drafted token on a ruler of p, and the number that it has to reach. */
function comparison(rule, child, label, decided, most) {
  const ruler = Math.max(most, child.threshold, 1e-9);
  const sign = rule === "typical" ? (child.passed ? ">" : "≤") : child.passed ? "≥" : "<";
  const bound = rule === "typical" ? "the threshold" : "the k-th most probable";
  const words = decided
    ? `p ${formatProb(child.p)} ${sign} ${formatProb(child.threshold)}, ${bound}`
    : `p against ${formatProb(child.threshold)}, ${bound}`;
  const fate = !decided ? "" : child.passed ? "accepted" : "rejected";
  return html`<div class="uniform-row compare ${fate}" role="img" aria-label="${label}: ${words}${fate && `, ${fate}`}">
    <span class="result">${decided ? (child.passed ? "✓" : "✗") : "?"}</span>
    <span class="token">${shorten(label, 12)}</span>
    <span class="uniform-track">
      ${decided ? html`<i class="mass" style="width: ${(100 * child.p) / ruler}%"></i>` : nothing}
      <i class="needed" style="left: ${(100 * child.threshold) / ruler}%"></i>
    </span>
    <span class="words">${words}</span>
  </div>`;
}

function meaning(rule, lane) {
  const s = lane.start?.settings || {};
  if (rule === "lenient")
    return `Lossy, l = ${s.lenience ?? "?"}: a draft token is up to 1/l times as likely to be accepted as under the token rule, and no token appears more than 1/l times as often as under p. The output does not follow p.`;
  if (rule === "typical")
    return "Lossy: H(p) is the entropy of p in nats; the flatter p, the lower the threshold. The draft's probabilities do not matter. The output does not follow p.";
  return `Lossy, k = ${s.agreement ?? "?"}: only a token's rank under p matters, not its probability. The output does not follow p.`;
}
