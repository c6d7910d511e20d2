// Decide's first question: which model, which card, how many at once? Its answer stands there as soon as it is asked.

import { h } from "../../../base/dom.js";
import { given } from "../../../base/given.js";
import { callServer } from "../../../base/host.js";
import { choice } from "../../../base/templates.js";
import { html, nothing, render } from "../../../vendor/lit-html.js";
import sheet from "./card.css" with { type: "css" };
import { curve } from "./speedup-curve.js";

const MORE = [
  ["tp", "Cards (0: as many as it needs)"],
  ["context", "Tokens of context"],
  ["answer", "Tokens of an answer (0: decoding only)"],
  ["tau", "Tokens a round, tau (0: estimated)"],
  ["price", "Price of a card, per hour (0: none)"],
  ["traffic", "Requests a second (0: none)"],
];

class ForecastView {
  constructor({ request }) {
    this.repaint = request;
    const { usual, answer } = given.forecast;
    this.values = { ...usual };
    this.answer = answer;
    this.root = h("section.forecast", { "aria-label": "Forecast" });
  }

  set(field, value) {
    this.values = { ...this.values, [field]: value };
    this.ask();
  }

  /** One question at a time; of those that come meanwhile the last is asked. */
  async ask() {
    this.stale = true;
    this.repaint();
    if (this.asking) return;
    this.asking = true;
    while (this.stale) {
      this.stale = false;
      const answer = await callServer("forecasts", this.values);
      if (answer) this.answer = answer;
    }
    this.asking = false;
    this.repaint();
  }

  /** A page without a server has a forecast of its own, which it computes itself. */
  paint() {
    this.root.hidden = Boolean(given.served);
    if (this.root.hidden) return;
    render(html`${this.question()} ${this.reply()} ${this.more()}`, this.root);
  }

  question() {
    const { engine, card } = this.values;
    const cards = this.answer.cards > 1 ? html`<span class="times">${this.answer.cards} ×</span>` : nothing;
    return html`<form class="asked" @submit=${(event) => event.preventDefault()}>
      <span>Does guessing pay for</span>${this.list("model", "Model")}<span>with</span>${this.list(
        "drafter",
        "Drafter",
      )}<span>on</span>${cards}${this.list("card", "Card", card)}${this.list("engine", "Server", engine)}
      <span>and</span>${this.number("concurrency", "Requests at once")}<span>requests at once?</span>
    </form>`;
  }

  list(field, words) {
    const options = given.forecast.lists[field].map((name) => [name, name]);
    return choice(words, options, this.values[field], (name) => this.set(field, name));
  }

  number(field, words) {
    const [least, most] = given.forecast.ranges[field];
    const changed = ({ target }) => this.set(field, target.value === "" ? null : Number(target.value));
    return html`<input
      type="number"
      aria-label=${words}
      min=${least}
      max=${most}
      step="any"
      .value=${String(this.values[field] ?? "")}
      @change=${changed}
    />`;
  }

  reply() {
    const { answer, asking } = this;
    if (answer.refused)
      return html`<div class="card reply"><p class="refused" role="alert">${answer.refused}</p></div>`;
    return html`<div class="card reply ${asking ? "stale" : ""}">
      <div class="said">
        <p class="note"><span class="badge recorded">forecast</span> from sizes and data sheets; nothing was run</p>
        <div role="status">
          <h2>${answer.headline}</h2>
          <p class="interval">${answer.interval}</p>
        </div>
      </div>
      ${curve(answer)} ${list(answer.facts)}
    </div>`;
  }

  more() {
    const field = ([name, words]) => html`<label>${words}${this.number(name, words)}</label>`;
    return html`<details>
      <summary>Cards, contexts, answers, price, traffic; each term; how good these forecasts were</summary>
      <div class="fields">${MORE.map(field)} <label>Curve along${this.list("axis", "Curve along")}</label></div>
      ${this.answer.terms ? list(this.answer.terms) : nothing}
      <p class="note">${given.forecast.validated}</p>
    </details>`;
  }
}

/** Sentences, each with a word in front. */
const list = (facts) =>
  html`<dl>
    ${facts.map(
      ([name, words]) =>
        html`<dt>${name}</dt>
          <dd>${words}</dd>`,
    )}
  </dl>`;

export const card = { area: "door", door: "decide", sheet, make: (page) => new ForecastView(page) };
