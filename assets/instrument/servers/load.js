// The card of a load test: speed against the first server with the prediction beside it, one other measure, a table.

import { button, h, setText } from "../base/dom.js";
import { counted, formatFigure, formatMs, formatProb } from "../base/format.js";
import { queueWords } from "../base/task.js";
import { saveFile } from "../draw/pictures.js";
import { scrollable, table } from "../draw/tables.js";
import { chart } from "./chart.js";
import { MEASURES, acceptanceOf, lanesOf, notesOf, seriesOf, speedupsOf, stopsOf } from "./curve.js";

const HEAD = [
  "at once",
  "server",
  "tokens/s",
  "× first",
  "predicted",
  "answers/s",
  "answer p99",
  "TTFT p99",
  "TPOT",
  "accepted",
];

export class LoadCard {
  constructor(stop, remove) {
    this.title = h("h2");
    this.stop = button("Stop", stop);
    this.save = button("Save", () => this.saved());
    this.close = button("Close", remove);
    this.progress = h("p.sum", { role: "status" });
    this.speedups = h("div");
    this.others = h("div");
    this.measure = h(
      "select",
      { "aria-label": "Measure", on: { change: () => this.draw() } },
      Object.entries(MEASURES).map(([value, { words }]) => h("option", { value }, words)),
    );
    this.remarks = h("ul.rules.remarks");
    this.legend = h("p.sum");
    this.points = h("div");
    this.more = h("details", h("summary", "Every point as a table"), this.points);
    this.root = h(
      "section.loaded",
      h("header.card-head.wrap", this.title, h("div.controls", this.stop, this.save, this.close)),
      this.progress,
      h("div.pair-of-charts", this.speedups, h("div", this.measure, this.others)),
      this.remarks,
      this.legend,
      this.more,
    );
  }

  paint(curve, answer, running) {
    const stamp = JSON.stringify([curve, running, answer && queueWords(answer)]);
    if (stamp === this.stamp) return;
    [this.stamp, this.curve, this.running] = [stamp, curve, running];
    setText(this.title, `${lanesOf(curve).join(" and ")} under load`);
    setText(this.progress, progressWords(curve, answer, running));
    this.stop.hidden = !running;
    this.close.hidden = this.save.hidden = running;
    this.draw();
  }

  draw() {
    const { curve } = this;
    const any = curve.points.length > 0;
    const places = [...new Set([...curve.concurrency, ...curve.points.map((point) => point.concurrency)])].sort(
      (a, b) => a - b,
    );
    const [speedups, stops] = [speedupsOf(curve), stopsOf(curve)];
    const lanes = lanesOf(curve);
    const [first] = lanes;
    this.speedups.replaceChildren(
      ...(speedups.length
        ? [
            h("h3", `Speed over ${first}`),
            chart({ series: speedups, lanes, places, stops, unit: "", one: true, label: speedupWords(curve, first) }),
          ]
        : []),
    );
    this.measure.hidden = this.more.hidden = !any;
    const measure = MEASURES[this.measure.value];
    const series = seriesOf(curve, this.measure.value).filter(({ points }) => points.length);
    this.others.replaceChildren(
      any
        ? chart({ series, lanes, places, stops, unit: measure.unit, label: `${measure.words} by requests at once` })
        : "",
    );
    this.remarks.replaceChildren(...notesOf(curve).map(([name, text]) => h("li", h("b", `${name}: `), text)));
    setText(this.legend, legendWords(curve));
    this.points.replaceChildren(scrollable("Points of this load test", table(HEAD, rows(curve))));
  }

  saved() {
    saveFile(new Blob([`${JSON.stringify(this.curve, null, 1)}\n`], { type: "application/json" }), "server-load.json");
  }
}

function progressWords(curve, answer, running) {
  const { points, concurrency, lanes } = curve;
  const all = concurrency.length * Object.keys(lanes).length;
  const conditions = `T ${curve.temperature} · answers of at most ${counted(curve.tokens, "token")} · ${curve.seconds} s a point`;
  if (!running)
    return points.length < all
      ? `stopped after ${points.length} of ${counted(all, "point")} · ${conditions}`
      : `${counted(all, "point")} · ${conditions}${curve.created ? ` · ${curve.created.slice(0, 10)}` : ""}`;
  const queued = answer && queueWords(answer);
  if (queued) return queued;
  return `point ${points.length + 1} of ${all} · ${conditions}`;
}

function legendWords(curve) {
  if (!curve.points.length) return "";
  const words = [
    "Each server was measured on its own, one after the other, with so many requests in flight; a request cut off at the end of a point counts for tokens/s only",
  ];
  if (curve.predicted.length)
    words.push(
      `Predicted: the server's own acceptance, over the cost of its rounds as this computer's calibration gives it for ${curve.predicted_with}. A server with another drafter, other kernels or fewer requests in a batch lies elsewhere`,
    );
  return `${words.join(". ")}.`;
}

const speedupWords = (curve, first) =>
  `Tokens per second over ${first}, measured and predicted, at ${curve.concurrency.join(", ")} requests at once`;

function rows(curve) {
  const first = lanesOf(curve)[0];
  const base = new Map(
    curve.points.filter(({ lane }) => lane === first).map((point) => [point.concurrency, point.tokens_per_second]),
  );
  const predicted = new Map(curve.predicted.map(({ lane, concurrency, ratio }) => [`${lane} ${concurrency}`, ratio]));
  const ms = (seconds) => (seconds === null ? "–" : formatMs(1000 * seconds));
  return [...curve.points]
    .sort((a, b) => a.concurrency - b.concurrency)
    .map((point) => {
      const { share } = acceptanceOf(point);
      return [
        String(point.concurrency),
        point.lane,
        formatFigure(point.tokens_per_second),
        point.lane === first ? "–" : formatFigure(point.tokens_per_second / base.get(point.concurrency)),
        formatFigure(predicted.get(`${point.lane} ${point.concurrency}`)),
        formatFigure(point.good_per_second),
        ms(point.latency_p99),
        ms(point.ttft_p99),
        ms(point.tpot_p50),
        Number.isFinite(share) ? formatProb(share) : "–",
      ];
    });
}
