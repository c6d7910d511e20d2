// The lossy rules' own forms: what is compared with what, and that the distribution that is written is not the
// target's.
//
// Leniency compares u with min(1, p / (l q)); typical acceptance and top-k use no random number: p of the drafted token
// is compared against a number. engine/draftscope/verify/rules.py states all three.

import { h, remark } from "../base/dom.js";
import { formatProb, shorten, visible } from "../base/format.js";
import { nodeOf } from "../base/store.js";
import { probabilityPicture } from "../draw/bars.js";

/** A decision under a lossy rule. `tools`: the decision card's own helpers. */
export function lossyForm(view, tools) {
  const { decision, known, lane, round } = view;
  const probs = decision.distributions[0];
  const child = decision.children[0];
  const node = nodeOf(round, child.node);
  const decided = known.result || known.decided.has(child.node);
  const label = visible(node.raw);
  const l = lane.start?.settings?.lenience;
  const line =
    decision.rule === "lenient"
      ? tools.uniformLine({
          label,
          child,
          decided,
          chosen: false,
          words: `min(1, p / (l q)) = ${formatProb(child.p)} / (${l ?? "l"} × ${formatProb(child.q)}) → ${formatProb(child.threshold)}`,
          open: () => {},
        })
      : comparison(decision.rule, child, label, decided, Math.max(...probs.p));
  return [
    h("div.uniforms", line),
    ...ending(view, tools),
    ...probabilityPicture(probs, tools.marksOf(view), decision.rule === "lenient"),
    remark(meaning(decision.rule, lane)),
  ];
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
  return h(
    "div",
    { class: `uniform-row compare ${fate}`, role: "img", "aria-label": `${label}: ${words}${fate && `, ${fate}`}` },
    h("span.result", decided ? (child.passed ? "✓" : "✗") : "?"),
    h("span.token", shorten(label, 12)),
    h(
      "span.uniform-track",
      decided ? h("i.mass", { style: { width: `${(100 * child.p) / ruler}%` } }) : null,
      h("i.needed", { style: { left: `${(100 * child.threshold) / ruler}%` } }),
    ),
    h("span.words", words),
  );
}

function ending(view, tools) {
  const { round, decision } = view;
  if (!tools.lastHere(view)) return [];
  const name = visible(round.last.raw);
  const from = decision.rule === "lenient" ? "the residual distribution, norm((p − q)+)" : "p, not from a residual";
  return [
    h(
      "p.outcome",
      h("span.glyph.correction", { "aria-hidden": "true" }, "↻"),
      ` It was rejected: ${name} is sampled from ${from}.`,
    ),
  ];
}

function meaning(rule, lane) {
  const s = lane.start?.settings || {};
  if (rule === "lenient")
    return `Lossy, l = ${s.lenience ?? "?"}: a draft token is up to 1/l times as likely to be accepted as under the token rule, and no token appears more than 1/l times as often as under p. The output does not follow p.`;
  if (rule === "typical")
    return "Lossy: H(p) is the entropy of p in nats; the flatter p, the lower the threshold. The draft's probabilities do not matter. The output does not follow p.";
  return `Lossy, k = ${s.agreement ?? "?"}: only a token's rank under p matters, not its probability. The output does not follow p.`;
}
