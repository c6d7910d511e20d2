// A recorded race and recorded audits, to play before anything is typed.

import { counted, formatFigure } from "../../../base/format.js";
import { callServer } from "../../../base/host.js";
import { smallButton } from "../../../base/templates.js";
import { auditCard, betRows, resultOf, resultWords } from "../../../servers/audit-card.js";
import { html, nothing } from "../../../vendor/lit-html.js";
import sheet from "./card.css" with { type: "css" };
import { marks } from "./marks.js";

const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

class Recorded {
  constructor({ request }) {
    this.repaint = request;
    this.record = null; // {prompt, temperature, created, machine, lanes, audits}, once the host has said
    this.now = Infinity; // ms of the race that have passed
    this.whole = {}; // server -> its audit is unfolded
  }

  async ask() {
    this.requested = true;
    const record = await callServer("recording", {});
    if (record) this.record = record;
    this.repaint();
  }

  get end() {
    return Math.max(...this.record.lanes.map(({ bursts }) => bursts.at(-1)[0]));
  }

  /** As fast as it was. */
  play() {
    if (still()) return;
    const began = performance.now();
    const step = (at) => {
      this.now = this.playing ? Math.max(0, at - began) : Infinity;
      if (this.now >= this.end) this.stop();
      else requestAnimationFrame(step);
      this.repaint();
    };
    this.playing = true;
    requestAnimationFrame(step);
  }

  stop() {
    this.playing = false;
    this.now = Infinity;
    this.repaint();
  }

  example() {
    if (!this.requested) this.ask();
    const { record } = this;
    return record ? html`${this.race(record)} ${this.audits(record)}` : nothing;
  }

  race({ lanes, prompt, temperature, created, machine }) {
    const [{ program, model }] = lanes;
    const play = this.playing
      ? smallButton("Stop", () => this.stop())
      : smallButton("▶ Play", () => this.play(), false, "Play the recorded race");
    return html`<section class="card recorded-card" aria-label="What a race shows">
      <header class="card-head wrap">
        <h3>What a race shows</h3>
        <span class="badge recorded">recorded</span>
      </header>
      <p class="note">
        The same prompt to two servers in turns. A mark is a burst of tokens as it arrived here, as high as its tokens
        are many.
      </p>
      ${marks(lanes, this.now, this.end)}
      <p>${raceWords(lanes)}</p>
      ${lanes.map(({ name, bursts }) => html`<p class="written"><b>${name}</b> ${textOf(bursts, this.now)}</p>`)}
      <div class="controls">${play}</div>
      <p class="note">${program} with ${model}, T ${temperature}, after “${prompt}”, ${created}; ${machine}.</p>
    </section>`;
  }

  audits({ audits: all, machine }) {
    const [first] = all;
    return html`<section class="card recorded-card" aria-label="What an audit finds">
      <header class="card-head wrap">
        <h3>What an audit finds</h3>
        <span class="badge recorded">recorded</span>
      </header>
      <p class="note">
        Texts that each server sampled, tested against the probabilities of ${first.against}: is it still its target's
        text?
      </p>
      ${all.map((audit) => this.outcome(audit))}
      <p>
        A real bug of this vLLM on processors (<a
          href="https://github.com/vllm-project/vllm/issues/55005"
          target="_blank"
          rel="noopener"
          >#55005</a
        >): drafted tokens were judged at a wrong temperature. Greedy texts are the target's own; only sampled ones are
        not.
      </p>
      <p class="note">${first.program}, T ${first.temperature}, ${first.created.slice(0, 10)}; ${machine}.</p>
    </section>`;
  }

  outcome(audit) {
    const result = resultOf(audit, false);
    const unfolded = ({ target }) => {
      this.whole = { ...this.whole, [audit.server]: target.open };
      this.repaint();
    };
    return html`<div class="found" data-result=${result}>
      <p><b>${audit.server}</b> · ${counted(audit.texts, "text")}</p>
      <p class="verdict">${resultWords(audit, result)}</p>
      <div class="bets">${betRows(audit)[0]}</div>
      <details @toggle=${unfolded}>
        <summary>The whole audit</summary>
        ${this.whole[audit.server] ? auditCard(audit, { state: "done" }, false) : nothing}
      </details>
    </div>`;
  }
}

const textOf = (bursts, now) =>
  bursts
    .filter(([end]) => end <= now)
    .map(([, , text]) => text)
    .join("");

const perSecond = ({ bursts }) => bursts.reduce((sum, [, tokens]) => sum + tokens, 0) / (bursts.at(-1)[0] / 1000);

/** Who was faster, and what the one that drafts counted itself. */
function raceWords([plain, drafts]) {
  const ratio = perSecond(drafts) / perSecond(plain);
  const speed = `${drafts.name}: ${formatFigure(perSecond(drafts))} tokens/s, ${ratio.toFixed(2)} times as fast as ${plain.name}`;
  return `${speed}. The server counts ${drafts.accepted} of ${counted(drafts.drafted, "drafted token")} as accepted, over three answers.`;
}

export const card = { area: "servers", door: "servers", sheet, make: (page) => new Recorded(page) };
