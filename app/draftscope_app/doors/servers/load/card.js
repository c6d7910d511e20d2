// The card of a load test: speed against the first server with the prediction beside it, one other measure, a table.

import { counted, formatFigure, formatMs, formatProb, shorten } from "../../../base/format.js";
import { given } from "../../../base/given.js";
import { askHost, pressStop, say } from "../../../base/host.js";
import { choice, smallButton } from "../../../base/templates.js";
import { saveFile } from "../../../draw/pictures.js";
import { foldedTable } from "../../../draw/tables.js";
import { guard, html, nothing } from "../../../vendor/lit-html.js";
import sheet from "./card.css" with { type: "css" };
import { chart } from "./load-chart.js";
import { MEASURES, acceptanceOf, lanesOf, notesOf, seriesOf, speedupsOf, stopsOf, readCurve } from "./load-curve.js";
import { remarks } from "../../../servers/measured.js";

const MOST = [1, 2, 4, 8, 16, 32, 64]; // requests at once
const USUAL = 8;
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

class LoadTest {
  constructor({ request }) {
    this.repaint = request;
    this.loaded = null; // {curve, answer}: the answer is null where a file was opened
    this.most = USUAL;
    this.measure = Object.keys(MEASURES)[0];
    this.asks = "loadtest";
    this.about = "A load test sends many such requests at once.";
  }

  get answered() {
    return Boolean(this.loaded);
  }

  get running() {
    return Boolean(this.loaded?.answer) && this.loaded.answer.state !== "done";
  }

  set(changes) {
    Object.assign(this, changes);
    this.repaint();
  }

  /** One goes on: its latest event says all. True for one that was going on before a reload. */
  take(answer) {
    if (answer.state === "done" && answer.note) say(answer.note);
    const resumed = !this.requested && !this.running && answer.state !== "done";
    const curve = answer.ev.at(-1) || this.loaded?.curve;
    if (curve) this.loaded = { curve, answer };
    this.repaint();
    return resumed;
  }

  controls({ chosen, sheet: list }, busy) {
    const points = MOST.map((n) => [n, n]);
    return html`<div class="controls">
      ${smallButton("Load test", () => this.ask(chosen), busy || !chosen.length)}
      <label class="stated">
        up to ${choice("Requests at once, at most", points, this.most, (most) => this.set({ most: Number(most) }))}
        requests at once
      </label>
      <span class="note">${this.timeWords(chosen)}</span>
      ${smallButton("Open load test", () => list.querySelector(".saved-load").click())}
    </div>`;
  }

  timeWords(chosen) {
    const points = MOST.filter((n) => n <= this.most).length * chosen.length;
    return points ? `about ${given.pointSeconds * points} s for ${counted(points, "point")}` : "";
  }

  /** Many requests at once, to each server in turn. */
  ask(names) {
    this.requested = true;
    this.loaded = null;
    say("");
    askHost("loadtest", { kind: "loadtest", names, most: this.most });
  }

  /** A load test that was saved, here or by the command line. */
  async open(input) {
    const [file] = input.files;
    if (!file) return;
    const curve = readCurve(await file.text());
    input.value = "";
    if (curve) this.loaded = { curve, answer: null };
    else
      say(
        `“${shorten(file.name, 60)}” is no load test; choose a file that Save or “draftscope race --concurrency” wrote.`,
      );
    this.repaint();
  }

  answers() {
    const { loaded } = this;
    const open = ({ target }) => this.open(target);
    return html`
      <input class="saved-load" type="file" accept=".json" hidden @change=${open} />
      ${loaded ? this.template(loaded.curve, loaded.answer) : nothing}
    `;
  }

  template(curve, answer) {
    const { running } = this;
    const close = () => this.set({ loaded: null });
    const any = curve.points.length > 0;
    return html`<section class="loaded">
      <header class="card-head wrap">
        <h2>${lanesOf(curve).join(" and ")} under load</h2>
        <div class="controls">
          ${running ? smallButton("Stop", pressStop) : [smallButton("Save", () => save(curve)), smallButton("Close", close)]}
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

export const card = {
  area: "servers",
  door: "servers",
  noun: "load test",
  hears: "loadtest",
  sheet,
  make: (page) => new LoadTest(page),
};
