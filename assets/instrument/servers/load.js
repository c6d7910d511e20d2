// The card of a load test: speed against the first server with the prediction beside it, one other measure, a table.

import { counted, formatFigure, formatMs, formatProb } from "../base/format.js";
import { choice, smallButton } from "../base/templates.js";
import { saveFile } from "../draw/pictures.js";
import { foldedTable } from "../draw/tables.js";
import { guard, html, nothing } from "../vendor/lit-html.js";
import { chart } from "./chart.js";
import { MEASURES, acceptanceOf, lanesOf, notesOf, seriesOf, speedupsOf, stopsOf } from "./curve.js";
import { remarks } from "./measured.js";

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
  constructor(stop, close, repaint) {
    Object.assign(this, { stop, close, repaint, measure: Object.keys(MEASURES)[0] });
  }

  template(curve, answer, running) {
    const any = curve.points.length > 0;
    return html`<section class="loaded">
      <header class="card-head wrap">
        <h2>${lanesOf(curve).join(" and ")} under load</h2>
        <div class="controls">
          ${running ? smallButton("Stop", this.stop) : [smallButton("Save", () => save(curve)), smallButton("Close", this.close)]}
        </div>
      </header>
      <p class="sum" role="status">${progressWords(curve, answer, running)}</p>
      <div class="pair-of-charts">
        <div>${guard([curve], () => speedups(curve))}</div>
        <div>${any ? this.other(curve) : nothing}</div>
      </div>
      ${remarks(notesOf(curve))}
      <p class="sum">${legendWords(curve)}</p>
      ${any ? foldedTable("Every point as a table", HEAD, rows(curve), "Points of this load test") : nothing}
    </section>`;
  }

  /** The measure that was chosen. */
  other(curve) {
    const choose = (measure) => {
      this.measure = measure;
      this.repaint();
    };
    const measures = Object.entries(MEASURES).map(([name, { words }]) => [name, words]);
    return html`
      ${choice("Measure", measures, this.measure, choose)}
      <div>${guard([curve, this.measure], () => measured(curve, this.measure))}</div>
    `;
  }
}

function axisOf(curve) {
  const places = new Set([...curve.concurrency, ...curve.points.map((point) => point.concurrency)]);
  return { places: [...places].sort((a, b) => a - b), lanes: lanesOf(curve), stops: stopsOf(curve) };
}

function speedups(curve) {
  const series = speedupsOf(curve);
  if (!series.length) return nothing;
  const [first] = lanesOf(curve);
  return html`
    <h3>Speed over ${first}</h3>
    ${chart({ series, ...axisOf(curve), unit: "", one: true, label: speedupWords(curve, first) })}
  `;
}

function measured(curve, measure) {
  const { unit, words } = MEASURES[measure];
  const series = seriesOf(curve, measure).filter(({ points }) => points.length);
  return chart({ series, ...axisOf(curve), unit, label: `${words} by requests at once` });
}

const save = (curve) =>
  saveFile(new Blob([`${JSON.stringify(curve, null, 1)}\n`], { type: "application/json" }), "server-load.json");

function progressWords(curve, answer, running) {
  const { points, concurrency, lanes } = curve;
  const all = concurrency.length * Object.keys(lanes).length;
  const conditions = `T ${curve.temperature} · answers of at most ${counted(curve.tokens, "token")} · ${curve.seconds} s a point`;
  if (!running)
    return points.length < all
      ? `stopped after ${points.length} of ${counted(all, "point")} · ${conditions}`
      : `${counted(all, "point")} · ${conditions}${curve.created ? ` · ${curve.created.slice(0, 10)}` : ""}`;
  if (answer?.waits) return answer.waits;
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
