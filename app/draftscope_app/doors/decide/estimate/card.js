// The calculator of Decide: sliders, and the speed by the length of a draft as a curve. It starts from the run that
// Watch has, and stands in the page's own document, beside what is measured.

import { h } from "../../../base/dom.js";
import { niceTicks } from "../../../base/numbers.js";
import { draftLane, isFinished } from "../../../base/store.js";
import { explained } from "../../../base/symbols.js";
import { provenance } from "../../../run/provenance.js";
import { laneTitle } from "../../../run/titles.js";
import { html, nothing, render, svg } from "../../../vendor/lit-html.js";
import { basis, best, changed, curve, flips, headline, termsOf } from "./forecast.js";

const WIDE = 340;
const HIGH = 206;
const EDGE = { left: 40, right: 58, top: 46, bottom: 38 }; // above: the axis's title, below it the highest point's number
const SLIDERS = [
  ["acceptance", "First token accepted, α", 0, 0.99, 0.01],
  ["draft", "Cost of a draft step, c", 0, 1, 0.01],
  ["rows", "Cost of checking, v, ×", 0, 3, 0.05],
  ["requests", "Concurrent requests", 1, 64, 1],
  ["length", "Tokens of an answer", 8, 2048, 1],
];
const NOTHING = "There is no finished run with plain decoding beside it yet; press Run on Watch.";

class Calculator {
  constructor() {
    this.drawn = h("div");
    this.root = h("div"); // nothing of it stands in the instrument
  }

  /** Of the run in `store`, once it is finished; until then the last one that was stays. It is drawn into the page's
   *  own document, beside what is measured there. */
  paint({ store }) {
    const place = document.querySelector(".ds-calculator");
    if (place && !place.contains(this.drawn)) place.append(this.drawn);
    const draft = draftLane(store);
    const stamp = `${store.run}/${isFinished(store)}/${draft?.solo?.seconds.length}/${Boolean(draft?.verify)}`;
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    const terms = termsOf(store);
    if (terms) this.begin(terms, draft, sourceOf(store));
    else if (!this.terms) this.say(NOTHING);
  }

  /** `whose`: the model that it is about, and the run that it is from. */
  say(words, rest = nothing, whose = nothing) {
    render(
      html`<h2 class="ds-stage">${this.model ? `The model on Watch: ${this.model}` : "The model on Watch"}</h2>
        ${whose}
        <p class="ds-calculator-headline" role="status">${words}</p>
        ${rest}`,
      this.drawn,
    );
  }

  begin(terms, draft, source) {
    this.terms = terms;
    this.source = source;
    this.model = modelOf(draft.start);
    this.drafter = laneTitle(draft);
    this.ran = `${laneTitle(draft)} on Watch (${provenance(draft.start)})`;
    this.reset();
  }

  reset() {
    const { kept, c, length } = this.terms;
    this.set = { acceptance: kept[0], draft: c, rows: 1, requests: 1, length };
    this.draw();
  }

  draw() {
    const { terms, set } = this;
    const points = curve(changed(terms, set), set.requests, set.length);
    const rest = html`
      <div>
        <div>${chart(points, terms)}</div>
        <div>
          <div>${SLIDERS.map((slider) => this.slider(slider))}</div>
          <button type="button" class="ds-small-button" @click=${() => this.reset()}>As measured</button>
        </div>
      </div>
      <p>${flips(terms, set)}</p>
      <details>
        <summary class="ds-muted">What this rests on</summary>
        <p class="ds-muted">
          An estimate of the speed, beside plain decoding of as many answers, from the run of ${this.ran}.
          ${basis(terms)}
        </p>
      </details>
    `;
    const whose = html`<p class="ds-muted">
      An estimate for one reader with ${this.drafter}, from ${this.source}; nothing is run for it. Move a value to see
      what it would change.
    </p>`;
    this.say(headline(points, terms), rest, whose);
  }

  /** What a reader has not moved keeps its value as it was measured, which the slider's step would round. */
  slider([name, label, min, max, step]) {
    const move = ({ target }) => {
      this.set = { ...this.set, [name]: Number(target.value) };
      this.draw();
    };
    const value = this.set[name];
    const shown = Math.min(max, Math.max(min, min + step * Math.round((value - min) / step)));
    return html`<div class="ds-slider">
      <span>${explained(label)}</span>
      <input type="range" min=${min} max=${max} step=${step} aria-label=${label} .value=${value} @input=${move} />
      <span aria-hidden="true">${Number(shown.toFixed(2))}</span>
    </div>`;
  }
}

/** Its name, without the folder that it was loaded from. */
function modelOf({ models }) {
  const target = models.find(({ role }) => role === "target");
  return target ? target.name.split("/").pop() : "";
}

function sourceOf({ run, source }) {
  if (run === "first") return "the page's recorded run, chosen because it gains";
  return source === "recorded" ? "the recorded run on Watch" : "the run on Watch";
}

function chart(points, terms) {
  const ratios = points.map((point) => point.ratio);
  const [least, most] = [Math.min(0.8, ...ratios), Math.max(1.2, ...ratios)];
  const last = points.length - 1;
  const x = (level) => EDGE.left + (level / last) * (WIDE - EDGE.left - EDGE.right);
  const y = (ratio) => HIGH - EDGE.bottom - ((ratio - least) / (most - least)) * (HIGH - EDGE.top - EDGE.bottom);
  const [top, asRun] = [best(points), points[terms.kept.length]];
  const line = (some, look) =>
    svg`<polyline class=${look} points=${some.map((point) => `${x(point.level)},${y(point.ratio)}`).join(" ")}></polyline>`;
  const words = (text, at, down, look = nothing) => svg`<text x=${at} y=${down} class=${look}>${text}</text>`;
  const value = (point) => words(point.ratio.toFixed(2), x(point.level), y(point.ratio) - 12, "best");
  const dot = (point) =>
    svg`<circle cx=${x(point.level)} cy=${y(point.ratio)} r=${point === asRun ? 7 : 4} class=${point.ran ? nothing : "guessed"}></circle>`;
  const level = (tick) =>
    svg`<line class="level" x1=${x(0)} y1=${y(tick)} x2=${x(last)} y2=${y(tick)}></line>${words(Number(tick.toFixed(2)), x(0) - 10, y(tick) + 4, "end")}`;
  const unit = terms.chain ? "drafted tokens a round" : "depth of the drafts, in tokens";
  return html`<svg
    viewBox="0 0 ${WIDE} ${HIGH}"
    role="img"
    aria-label="${headline(points, terms)} ${spoken(points, unit)}"
  >
    ${words("times plain decoding's tokens/s", EDGE.left - 32, 14, "side")} ${heights(least, most).map(level)}
    <line class="one" x1=${x(0)} y1=${y(1)} x2=${x(last)} y2=${y(1)}></line>
    ${words("1, plain", x(last) + 8, y(1) + 4, "side")}
    ${line(
      points.filter((point) => point.ran),
      "speed",
    )}
    ${line(points.slice(terms.kept.length), "guessed")} ${points.map(dot)} ${value(asRun)}
    ${top === asRun ? nothing : value(top)}
    ${points.map((point) => words(point.level, x(point.level), HIGH - EDGE.bottom + 18))}
    ${words(points.length > terms.kept.length + 1 ? `${unit}; hollow: not run` : unit, x(last / 2), HIGH - 4)}
  </svg>`;
}

/** Round heights of the axis. */
const heights = (least, most) => niceTicks(most, 5).filter((tick) => tick >= least);

const spoken = (points, unit) =>
  `By ${unit}: ${points.map((point) => `${point.level}: ${point.ratio.toFixed(2)}${point.ran ? "" : " (not run)"}`).join(", ")}`;

export const card = { area: "door", door: "decide", make: () => new Calculator() };
