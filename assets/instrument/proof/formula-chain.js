// The formula of a chain: what another acceptance, length or draft cost would come to.
//
// S = tau / (gamma c + v + o), tau = (1 - alpha^(gamma + 1)) / (1 - alpha).

import { s } from "../base/dom.js";
import { counted, formatFigure, formatProb } from "../base/format.js";
import { alphaOf, breakEven, chainSpeed, chainTau, longestChain, verifyAt } from "../base/numbers.js";
import { polyline } from "../draw/chart.js";
import { html, nothing } from "../vendor/lit-html.js";
import { costSlider, measuredPoint, speedAxes } from "./formula-parts.js";

const MOST = 16; // longest chain drawn
const MOST_ALPHA = 0.99;
const FORMULA =
  "τ = (1 − α^(γ+1)) / (1 − α),  S = τ / (γc + v + o). v by tokens read at once was measured on this machine, and the curve ends where it was; o is this run's.";
const NO_DRAFT = "No round of this run had a draft, so there is no cost of verifying one.";

export function chainModel(costs) {
  const longest = Math.max(1, Math.min(MOST, longestChain(costs)));
  const measured = {
    alpha: Math.min(MOST_ALPHA, alphaOf(costs.tau, Math.max(costs.drafted, 0.01))),
    gamma: Math.max(1, Math.min(longest, Math.round(costs.drafted))),
    c: costs.drafted ? (costs.c * costs.per) / costs.drafted : 0,
  };
  return {
    notes: html`<p class="note">${FORMULA}</p>
      <p class="note">${knownWords(costs)}</p>`,
    sliders: [
      { name: "alpha", label: "α, acceptance per draft token", most: MOST_ALPHA },
      { name: "gamma", label: "γ, drafted per round", least: 1, most: longest, step: 1 },
      costSlider(measured.c),
    ],
    measured,
    modelled: (set) => modelled(set, costs, longest),
  };
}

function modelled({ alpha, gamma, c }, costs, longest) {
  const speed = (g) => chainSpeed(alpha, g, c, costs);
  const curve = Array.from({ length: longest }, (_, i) => ({
    x: i + 1,
    y: speed(i + 1),
    tau: chainTau(alpha, i + 1),
  })).filter((at) => Number.isFinite(at.y));
  if (!curve.length) return { words: NO_DRAFT, picture: nothing };
  const best = curve.reduce((a, b) => (b.y > a.y ? b : a));
  const even = breakEven(gamma, c, costs);
  const end = best.x === longest && best.x > 1 ? ", the longest that was measured" : "";
  const bestWords = best.y > 1 ? `${best.x}${end}, S ${formatFigure(best.y)}` : "0: plain decoding";
  const evenWords = even >= 0.9999 ? "at no α" : `above α ${formatProb(even)}`;
  const rest = ` · best γ ${bestWords} · at γ ${gamma} it is faster than plain ${evenWords}.${noiseWords(gamma, costs)}`;
  return {
    words: html`<b>Modelled: τ ${formatFigure(chainTau(alpha, gamma))}, S ${formatFigure(speed(gamma))}</b>${rest}`,
    picture: chart(curve, gamma, best, costs),
    rows: {
      label: "Speedup by γ",
      heads: ["γ", "τ, modelled", "S, modelled"],
      cells: curve.map(({ x, tau, y }) => [x, formatFigure(tau), formatFigure(y)]),
    },
  };
}

/** Where v by rows comes from, and how far it goes. */
function knownWords(costs) {
  const { widths } = costs.curve;
  const far = widths[widths.length - 1];
  const from = costs.curve.kind
    ? `v was measured up to ${counted(far, "token")} at once.`
    : `This run measured v at ${widths.join(" and ")} ${far === 1 ? "token" : "tokens at once"} only.`;
  return from + (costs.noisy ? " Reading several came out faster than reading one: noise." : "");
}

/** Where the measured effect of more rows is smaller than its noise. */
function noiseWords(gamma, costs) {
  const { v, noise } = verifyAt(gamma + 1, costs.curve);
  return v - 1 < 2 * noise ? ` v of ${gamma + 1} tokens cannot be told from v of one: the noise is larger.` : "";
}

function chart(curve, gamma, best, costs) {
  const most = Math.max(1.2, costs.measured, ...curve.map((at) => at.y)) * 1.08;
  const axes = speedAxes(most, MOST, [1, 4, 8, 12, 16], "γ, drafted per round");
  const { x, y } = axes;
  const at = curve[gamma - 1];
  return axes.svg(
    `Modelled speedup by γ, best ${formatFigure(best.y)} at γ ${best.x}; measured ${formatFigure(costs.measured)} at ${formatFigure(costs.drafted)} drafted per round`,
    polyline(curve, x, y, { class: "model" }),
    curve.map((p) => s("circle.model", { cx: x(p.x), cy: y(p.y), r: 2 })),
    s("circle.chosen", { cx: x(at.x), cy: y(at.y), r: 5.5 }),
    measuredPoint(axes, costs.drafted, costs.measured, at.y),
  );
}
