// The calculator of the Decide stage: sliders, and the forecast as a curve. It starts from the run that Watch has, and
// stands in the page's own document, beside what is measured.

import { h, s, setText } from "../base/dom.js";
import { draftLane, isFinished } from "../base/store.js";
import { explained } from "../base/symbols.js";
import { provenance } from "../run/provenance.js";
import { laneTitle } from "../run/titles.js";
import { basis, best, changed, curve, flips, headline, termsOf } from "./forecast.js";

const WIDE = 340;
const HIGH = 190;
const EDGE = { left: 20, right: 58, top: 22, bottom: 38 };
const SLIDERS = [
  ["acceptance", "First token accepted, α", 0, 0.99, 0.01],
  ["draft", "Cost of a draft step, c", 0, 1, 0.01],
  ["rows", "Cost of checking, v, ×", 0, 3, 0.05],
  ["requests", "Concurrent requests", 1, 64, 1],
  ["length", "Tokens of an answer", 8, 2048, 1],
];
const NOTHING = "There is no finished run with plain decoding beside it yet; press Run on Watch.";

export class Calculator {
  constructor() {
    this.sliders = Object.fromEntries(SLIDERS.map(([name, label, ...range]) => [name, slider(label, range)]));
    const form = Object.values(this.sliders).map((control) => control.root);
    this.headline = h("p.ds-calculator-headline", { role: "status" });
    this.picture = h("div");
    this.flips = h("p");
    this.basis = h("p.ds-muted");
    this.source = h("summary.ds-muted", "What this rests on");
    const rests = h("details", this.source, this.basis);
    const again = h("button", { type: "button", on: { click: () => this.reset() } }, "As measured");
    const controls = h("div", { on: { input: () => this.draw() } }, form, again);
    this.rest = [h("div", this.picture, controls), this.flips, rests]; // once there is a run to start from
    this.root = h("div", this.headline);
  }

  /** Of the run in `store`, once it is finished; until then the last one that was stays. */
  paint(store) {
    const place = document.querySelector(".ds-calculator");
    if (place && !place.contains(this.root)) place.append(this.root);
    const draft = draftLane(store);
    const stamp = `${store.run}/${isFinished(store)}/${draft?.solo?.seconds.length}/${Boolean(draft?.verify)}`;
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    const terms = termsOf(store);
    if (terms) this.begin(terms, draft, sourceOf(store));
    else if (!this.terms) setText(this.headline, NOTHING);
  }

  begin(terms, draft, source) {
    if (!this.terms) this.root.append(...this.rest);
    this.terms = terms;
    setText(this.source, `What this rests on: ${source}`);
    const of = `An estimate of the speed, beside plain decoding of as many answers, from the run of ${laneTitle(draft)} on Watch (${provenance(draft.start)}).`;
    setText(this.basis, `${of} ${basis(terms)}`);
    this.reset();
  }

  reset() {
    const { kept, c, length } = this.terms;
    const measured = { acceptance: kept[0], draft: c, rows: 1, requests: 1, length };
    for (const [name, value] of Object.entries(measured)) this.sliders[name].set(value);
    this.draw();
  }

  draw() {
    const set = Object.fromEntries(Object.entries(this.sliders).map(([name, control]) => [name, control.value()]));
    const points = curve(changed(this.terms, set), set.requests, set.length);
    setText(this.headline, headline(points, this.terms));
    setText(this.flips, flips(this.terms, set));
    this.picture.replaceChildren(chart(points, this.terms));
  }
}

function sourceOf({ run, source }) {
  if (run === "first") return "the page's recorded run, chosen because it gains";
  return source === "recorded" ? "the recorded run on Watch" : "the run on Watch";
}

/** What a reader has not moved keeps its value as it was measured, which the slider's step would round. */
function slider(label, [min, max, step]) {
  const shown = h("span", { "aria-hidden": "true" });
  const input = h("input", { type: "range", min, max, step, "aria-label": label });
  let exact = NaN;
  const say = () => setText(shown, input.value);
  input.addEventListener("input", () => {
    exact = Number(input.value);
    say();
  });
  const set = (value) => {
    exact = value;
    input.value = String(value);
    say();
  };
  return {
    root: h("div.ds-slider", h("span", explained(label)), input, shown),
    value: () => exact,
    set,
  };
}

function chart(points, terms) {
  const ratios = points.map((point) => point.ratio);
  const [least, most] = [Math.min(0.8, ...ratios), Math.max(1.2, ...ratios)];
  const last = points.length - 1;
  const x = (level) => EDGE.left + (level / last) * (WIDE - EDGE.left - EDGE.right);
  const y = (ratio) => HIGH - EDGE.bottom - ((ratio - least) / (most - least)) * (HIGH - EDGE.top - EDGE.bottom);
  const [top, asRun] = [best(points), points[terms.kept.length]];
  const line = (some, look) =>
    s("polyline", { points: some.map((point) => `${x(point.level)},${y(point.ratio)}`).join(" "), class: look });
  const words = (text, at, down, look) => s("text", { x: at, y: down, class: look }, text);
  const value = (point) => words(point.ratio.toFixed(2), x(point.level), y(point.ratio) - 12, "best");
  const unit = terms.chain ? "drafted tokens a round" : "depth of the drafts, in tokens";
  return s(
    "svg",
    {
      viewBox: `0 0 ${WIDE} ${HIGH}`,
      role: "img",
      "aria-label": `${headline(points, terms)} ${spoken(points, unit)}`,
    },
    s("line.one", { x1: x(0), y1: y(1), x2: x(last), y2: y(1) }),
    words("1, plain", x(last) + 8, y(1) + 4, "side"),
    line(
      points.filter((point) => point.ran),
      "speed",
    ),
    line(points.slice(terms.kept.length), "guessed"),
    points.map((p) =>
      s("circle", { cx: x(p.level), cy: y(p.ratio), r: p === asRun ? 7 : 4, class: p.ran ? "" : "guessed" }),
    ),
    value(asRun),
    top === asRun ? null : value(top),
    points.map((point) => words(String(point.level), x(point.level), HIGH - EDGE.bottom + 18)),
    words(unit, x(last / 2), HIGH - 4),
  );
}

const spoken = (points, unit) =>
  `By ${unit}: ${points.map((point) => `${point.level}: ${point.ratio.toFixed(2)}${point.ran ? "" : " (not run)"}`).join(", ")}`;
