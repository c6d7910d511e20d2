// The forecast for a model, a drafter and a card that are not at hand, computed here. It stands in the page's own
// document, beside the calculator.

import { h } from "../../../base/dom.js";
import { choice } from "../../../base/templates.js";
import { html, nothing, render } from "../../../vendor/lit-html.js";
import { readFile } from "../runs/files.js";
import { curve } from "./site-curve.js";
import { forecast, speedupAt } from "./forecast-formula.js";
import { sentences, verdict } from "./words.js";

const FIRST = {
  model: "Llama-3-70B",
  drafter: "eagle3",
  card: "H100 SXM",
  engine: "vLLM",
  text: "chat",
  tp: 0,
  concurrency: 1,
  context: 1024,
  answer: 0,
  tau: 0,
};
const LISTS = [
  ["model", "Model", "models"],
  ["drafter", "Drafter", "kinds"],
  ["card", "Card", "cards"],
  ["engine", "Server", "engines"],
  ["text", "Kind of text", "texts"],
];
const NUMBERS = [
  ["tp", "Cards (0: as many as it needs)", 0, 64, 1],
  ["concurrency", "Concurrent requests", 1, 4096, 1],
  ["context", "Tokens of context", 1, 1e7, 1],
  ["answer", "Tokens of an answer (0: decoding only)", 0, 1e7, 1],
  ["tau", "Tokens a round, tau (0: estimated)", 0, 64, 0.01],
];
const LOADS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const WHAT =
  "The formula of draftscope forecast, from sizes and data sheets, computed on this page. Its interval should hold nine of ten measurements.";

class ForecastView {
  constructor() {
    this.root = h("div"); // nothing of it stands in the instrument
    this.drawn = h("div");
    this.set = { ...FIRST };
  }

  paint() {
    const place = document.querySelector(".ds-forecast");
    if (!place || place.contains(this.drawn)) return;
    place.append(this.drawn);
    this.load();
  }

  async load() {
    const text = await readFile("forecast");
    if (!text) return;
    this.tables = JSON.parse(text);
    const [some] = Object.values(this.tables.plans);
    const names = (table) => Object.keys(this.tables[table]);
    this.names = { models: names("models"), cards: names("cards"), engines: names("engines") };
    this.names = { ...this.names, kinds: Object.keys(some), texts: this.tables.texts };
    this.draw();
  }

  change(values) {
    this.set = { ...this.set, ...values };
    this.draw();
  }

  draw() {
    const result = forecast(this.tables, this.set);
    const view = html`
      <div class="ds-fields">
        ${LISTS.map((list) => this.list(list))} ${NUMBERS.map((number) => this.number(number))}
      </div>
      ${result.refused ? html`<p role="alert">${result.refused}</p>` : this.answer(result)}
      <p class="ds-muted">${WHAT}</p>
    `;
    render(view, this.drawn);
  }

  answer(result) {
    const loads = [...new Set([...LOADS, this.set.concurrency])].sort((a, b) => a - b);
    const points = loads
      .map((n) => ({ x: n, band: speedupAt(this.tables, this.set, { concurrency: n }) }))
      .filter(({ band }) => band);
    return html`
      <p role="status"><b>${verdict(result)}</b> A forecast, not run.</p>
      ${points.length > 1 ? curve(points, this.set.concurrency) : nothing}
      <ul>
        ${sentences(result, this.set).map((words) => html`<li>${words}</li>`)}
      </ul>
    `;
  }

  list([name, label, table]) {
    const options = this.names[table].map((word) => [word, word]);
    return html`<label
      >${label} ${choice(label, options, this.set[name], (word) => this.change({ [name]: word }))}</label
    >`;
  }

  /** What is no number, or outside its range, leaves things as they are. */
  number([name, label, min, max, step]) {
    const take = ({ target }) =>
      target.value !== "" && target.checkValidity() && this.change({ [name]: Number(target.value) });
    return html`<label>
      ${label}
      <input type="number" min=${min} max=${max} step=${step} .value=${String(this.set[name])} @change=${take} />
    </label>`;
  }
}

export const card = { area: "door", door: "decide", make: () => new ForecastView() };
