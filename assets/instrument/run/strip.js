// The strip: when it reached the reader. One row a lane, one bar a round, on the race clock.
//
// Drawn on a canvas, because a long run has thousands of rounds; the list of rounds for assistive technology and the
// keyboard is the slider role of the canvas's frame. A bar's blocks: solid = accepted, hollow = correction, filled with
// a plus = bonus; the thin outline above is what was drafted and wasted.

import { h, setText, zoomOf } from "../base/dom.js";
import { CUT_WORDS } from "../base/fates.js";
import { counted, formatMs } from "../base/format.js";
import { niceTicks } from "../base/numbers.js";
import { knownAt } from "../base/stages.js";
import { isFinished, isServer, meanRound, roundsAt, speculates } from "../base/store.js";
import { choice, smallButton } from "../base/templates.js";
import { SPEEDS, speedName } from "../base/transport.js";
import { sized, wrapped } from "../draw/canvas.js";
import { html, nothing, render } from "../vendor/lit-html.js";
import { RoundTable } from "./table.js";
import { laneTitle } from "./titles.js";

const ROWS = { tick: 22, bar: 46 }; // heights: of a lane that drafts nothing, of one that does
const TICK = 13;
const TOP = 4;
const AXIS = 22;
const leftOf = (width) => (width < 560 ? 88 : 150); // room for the lanes' names
const RIGHT = 16;

export class StripView {
  constructor(transport, select) {
    this.transport = transport;
    this.select = select;
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.readout = h("span.readout", { "aria-hidden": "true" });
    this.frame = h(
      "div.strip-frame",
      { tabindex: "0", role: "slider", "aria-label": "Rounds on the race clock" },
      this.canvas,
    );
    this.controls = h("div.controls.clock");
    this.scrub = h("input", {
      type: "range",
      min: "0",
      max: "1000",
      step: "1",
      value: "1000",
      "aria-label": "Time on the race clock",
      on: { input: () => transport.scrub((this.scrub.value / 1000) * transport.end) },
    });
    this.table = new RoundTable(select);
    this.line = h("p.readout-line", this.readout); // what the pointer is at
    this.earlier = h("span.earlier");
    const head = h("header.card-head", h("h3.unseen", "When tokens arrived"));
    this.foot = h("div.strip-foot.card-foot", this.line, this.table.root, this.earlier, this.controls);
    this.root = h("section.card.strip", head, this.frame, this.scrub, this.foot);
    this.listen();
  }

  listen() {
    this.canvas.redraw = () => {
      const { store, now, selection, known, hiding, colours } = this.last;
      this.paint(store, now, selection, known, hiding, colours);
    };
    this.canvas.addEventListener("click", (event) => this.pick(event, true));
    this.canvas.addEventListener("pointermove", (event) => this.pick(event, false));
    this.canvas.addEventListener("pointerleave", () => {
      this.hover = null;
      this.say();
    });
  }

  /** The runs to go back to, each {run, words}; `back` is called with the one that was chosen. */
  offer(kept, back) {
    const options = [["", `Runs so far (${kept.length})`], ...kept.map(({ run, words }) => [run, words])];
    render(kept.length ? choice("Go back to a run of this page", options, "", back) : nothing, this.earlier);
  }

  paint(store, now, selection, known, hiding, colours) {
    this.last = { store, now, selection, known, hiding, colours };
    this.state();
    this.table.paint(store, now);
    const width = this.frame.clientWidth;
    if (!width || !store.lanes.length) return;
    const height = TOP + store.lanes.reduce((sum, lane) => sum + rowHeight(lane, colours), 0) + AXIS;
    const ctx = sized(this.canvas, width, height);
    this.plot = { x0: leftOf(width), x1: width - RIGHT, span: horizon(store, this.transport) };
    drawAxis(ctx, this.plot, height, colours);
    let y = TOP;
    this.rows = [];
    for (const lane of store.lanes) {
      const tall = rowHeight(lane, colours);
      drawLane(ctx, lane, this.plot, y, tall, this.last, !this.transport.playing && !hiding);
      this.rows.push({ lane, y, tall });
      y += tall;
    }
    if (now < this.plot.span && this.transport.end > 0) drawHead(ctx, this.plot, now, height, colours);
    this.scrub.style.marginLeft = `${this.plot.x0 - 8}px`;
    this.scrub.style.width = `${width - this.plot.x0 - RIGHT + 16}px`;
  }

  /** Buttons, the stated speed, and what the slider says aloud. */
  state() {
    const { store, now, selection, known } = this.last;
    const t = this.transport;
    const waits = !isFinished(store) && (t.follow || (t.playing && now >= t.end)); // decoding is slower than the display
    const pace = waits ? "live" : speedName(t.slow);
    const act = t.runs ? "Pause" : t.guide ? "Go on" : t.whole ? "Replay" : "Play";
    const speeds = SPEEDS.map((slow) => [slow, slow ? speedName(slow) : "fit 10 s"]);
    const choose = (slow) => {
      t.speed = Number(slow);
      t.paint();
    };
    const controls = html`
      <span class="stated pace">${t.end ? pace : ""}</span>
      <span class="stated times">${t.end ? `· ${formatMs(now)} of ${formatMs(t.end)}` : ""}</span>
      ${smallButton(act, () => t.toggle(), !t.end)} ${choice("Speed of the replay", speeds, t.speed, choose)}
      ${smallButton("Skip to end", () => t.toEnd(), !t.end || (now >= t.end && !t.runs))}
    `;
    render(controls, this.controls);
    if (document.activeElement !== this.scrub && !this.scrub.matches(":active"))
      this.scrub.value = t.end ? Math.round((1000 * now) / t.end) : 0;
    this.scrub.setAttribute("aria-valuetext", `${formatMs(now)} of ${formatMs(t.end)}`);
    const { lane, round: at = 0 } = selection ?? {};
    const said = {
      valuemin: 1,
      valuemax: Math.max(1, lane?.rounds.length ?? 1),
      valuenow: at + 1,
      valuetext: lane?.rounds[at] ? roundWords(lane, lane.rounds[at], known) : "no round yet",
    };
    for (const [name, value] of Object.entries(said)) this.frame.setAttribute(`aria-${name}`, value);
    this.say();
  }

  say() {
    const at = this.hover;
    const round = at && at.lane.rounds[at.round];
    setText(
      this.readout,
      round ? `${laneTitle(at.lane)} · ${roundWords(at.lane, round, knownAt(round, Infinity))}` : "",
    );
  }

  /** The round nearest to the pointer in its row: hovered, or chosen. */
  pick(event, chosen) {
    if (!this.rows) return;
    const canvas = this.canvas.getBoundingClientRect();
    const x = (event.clientX - canvas.left) / zoomOf(this.canvas);
    const y = (event.clientY - canvas.top) / zoomOf(this.canvas);
    const row = this.rows.find((r) => y >= r.y && y < r.y + r.tall);
    const shown = row
      ? row.lane.rounds.slice(
          0,
          this.transport.playing || this.last.hiding ? roundsAt(row.lane, this.last.now) : undefined,
        )
      : [];
    if (!shown.length) return;
    const ms = ((x - this.plot.x0) / (this.plot.x1 - this.plot.x0)) * this.plot.span;
    let best = shown[0];
    for (const r of shown) if (Math.abs(r.end - ms) < Math.abs(best.end - ms)) best = r;
    if (chosen) this.select(row.lane, best.index);
    else {
      this.hover = { lane: row.lane, round: best.index };
      this.say();
    }
  }
}

/** One round in words: for the readout, and for assistive technology. */
function roundWords(lane, round, known) {
  if (isServer(lane))
    return `burst ${round.index + 1}${lane.end ? ` of ${lane.rounds.length}` : ""} · ${counted(round.emitted.length, "token")}, ${formatMs(round.end - round.start)} after the one before, at ${formatMs(round.end)}`;
  const name = `round ${round.index + 1}${lane.end ? ` of ${lane.rounds.length}` : ""}`;
  if (!known.committed)
    return `${name} · ${known.drafted && round.drafted ? `${round.drafted} drafted · ` : ""}shown up to ${known.stage || "its start"}`;
  const got = [];
  if (round.drafted) got.push(`${round.drafted} drafted, ${round.accepted} accepted`);
  if (round.emitted.length > round.accepted)
    got.push(round.last.kind === "plain" ? "the target's own token" : `one ${round.last.kind}`);
  if (round.cut) got.push(CUT_WORDS[round.cut]);
  return `${name} · ${got.join(", ")} · ${formatMs(round.end - round.start)}, ended at ${formatMs(round.end)}`;
}

const rowHeight = (lane, { rows }) => rows * (!speculates(lane) && !isServer(lane) ? ROWS.tick : ROWS.bar);

/** The right edge of the clock: the whole run's, known or (while it is decoded) growing in steps. */
function horizon(store, transport) {
  const end = transport.end || 1;
  if (isFinished(store)) return end;
  const step = Math.pow(10, Math.floor(Math.log10(end)));
  return Math.ceil((end * 1.05) / (step / 2)) * (step / 2);
}

const toX = (plot, ms) => plot.x0 + (ms / plot.span) * (plot.x1 - plot.x0);

function drawAxis(ctx, plot, height, colours) {
  const ticks = niceTicks(plot.span, Math.max(3, Math.floor((plot.x1 - plot.x0) / 110)));
  ctx.fillStyle = colours.muted;
  ctx.font = `${colours.small}px ${colours.sans}`;
  ctx.textAlign = "center";
  ctx.textBaseline = "alphabetic";
  ctx.strokeStyle = colours.rule;
  ctx.lineWidth = 1;
  for (const ms of ticks) {
    const x = Math.round(toX(plot, ms)) + 0.5;
    line(ctx, x, TOP, x, height - AXIS + 4);
    const label = plot.span >= 2000 ? `${+(ms / 1000).toFixed(2)} s` : `${+ms.toFixed(2)} ms`;
    ctx.textAlign = ms === 0 ? "left" : x > plot.x1 - 24 ? "right" : "center";
    ctx.fillText(label, ms === 0 ? x - 1 : x, height - 5);
  }
}

function line(ctx, x0, y0, x1, y1) {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}

function drawHead(ctx, plot, now, height, colours) {
  const x = Math.round(toX(plot, now)) + 0.5;
  ctx.strokeStyle = colours.ink;
  ctx.lineWidth = 1.5;
  line(ctx, x, 2, x, height - AXIS + 6);
}

function drawLane(ctx, lane, plot, y, tall, view, ghosts) {
  const { now, selection, colours } = view;
  const base = y + tall - 7;
  drawName(ctx, lane, base, plot.x0 - 14, tall, colours);
  ctx.strokeStyle = colours.rule;
  ctx.lineWidth = 1;
  line(ctx, plot.x0, base + 0.5, plot.x1, base + 0.5);
  if (lane.prefill) drawPrefill(ctx, lane, plot, base, colours);
  const past = roundsAt(lane, now);
  const shown = ghosts ? lane.rounds.length : past;
  const deepest = Math.max(1, ...lane.rounds.map((r) => Math.max(r.depth + 1, r.emitted.length)));
  const unit = Math.min(11 * colours.rows, (tall - 18) / deepest);
  const wide = barWidth(lane, plot, 11 * colours.rows);
  for (let i = 0; i < shown; i++) {
    const round = lane.rounds[i];
    ctx.globalAlpha = i < past ? 1 : 0.22;
    const x = toX(plot, round.end);
    if (isServer(lane)) drawBurst(ctx, round, x, base, unit, wide, colours);
    else if (round.nodes.length) drawBar(ctx, round, x, base, unit, wide, colours);
    else drawTick(ctx, x, base, colours, !speculates(lane), TICK * colours.rows);
  }
  ctx.globalAlpha = 1;
  if (selection && selection.lane === lane && lane.rounds[selection.round] && selection.round < shown) {
    const round = lane.rounds[selection.round];
    const x = toX(plot, round.end);
    const half = (round.nodes.length || isServer(lane) ? wide : 3) / 2 + 4;
    const top =
      round.nodes.length || isServer(lane)
        ? Math.max(round.depth + 1, round.emitted.length) * unit + 5
        : TICK * colours.rows + 5;
    ctx.strokeStyle = colours.ink;
    ctx.lineWidth = 1.5;
    box(ctx, x - half, base - top, 2 * half, top + 4, 3);
  }
}

function drawName(ctx, lane, base, width, tall, colours) {
  ctx.fillStyle = colours.muted;
  ctx.font = `${colours.label}px ${colours.sans}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  const lines = wrapped(ctx, laneTitle(lane), width, Math.max(1, Math.floor(tall / 15)));
  lines.forEach((text, i) => ctx.fillText(fitted(ctx, text, width), 0, base - 4 - 15 * (lines.length - 1 - i)));
}

function fitted(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  let cut = text;
  while (cut.length > 1 && ctx.measureText(cut + "…").width > width) cut = cut.slice(0, -1);
  return cut + "…";
}

function drawPrefill(ctx, lane, plot, base, colours) {
  const x0 = toX(plot, lane.prefill.start);
  const x1 = toX(plot, lane.prefill.end);
  ctx.fillStyle = colours.rule;
  ctx.fillRect(x0, base - 5, Math.max(1, x1 - x0), 5);
}

function barWidth(lane, plot, most) {
  if (lane.rounds.length < 2) return 9;
  const gap = ((plot.x1 - plot.x0) / plot.span) * meanRound(lane);
  return Math.max(2, Math.min(most, gap * 0.55));
}

function drawTick(ctx, x, base, colours, plain, tall) {
  ctx.fillStyle = plain ? colours.ink : colours.muted;
  ctx.fillRect(x - 0.75, base - tall, 1.5, tall);
}

/** A burst: a block for each token. */
function drawBurst(ctx, round, x, base, unit, wide, colours) {
  ctx.fillStyle = round.index % 2 ? colours.bonus : colours.draft;
  round.emitted.forEach((_, i) => ctx.fillRect(x - wide / 2, base - (i + 1) * unit, wide, unit - (unit > 5 ? 1 : 0)));
}

/** Accepted solid from below, then the round's own token, and the outline of all that was drafted. */
function drawBar(ctx, round, x, base, unit, wide, colours) {
  const left = x - wide / 2;
  const wasted = Math.max(round.depth + 1, round.emitted.length);
  ctx.strokeStyle = colours.unjudged;
  ctx.lineWidth = colours.thin;
  ctx.strokeRect(left, base - wasted * unit, wide, wasted * unit);
  ctx.fillStyle = colours.accepted;
  if (round.accepted)
    ctx.fillRect(left, base - round.accepted * unit, wide, round.accepted * unit - (unit > 5 ? 1 : 0));
  if (round.emitted.length <= round.accepted) return;
  const top = base - (round.accepted + 1) * unit;
  if (round.last.kind === "bonus") {
    ctx.fillStyle = colours.bonus;
    ctx.fillRect(left, top, wide, unit - 1);
    if (wide >= 7 && unit >= 7) plus(ctx, x, top + (unit - 1) / 2, colours.card);
  } else {
    ctx.fillStyle = colours.card;
    ctx.fillRect(left, top, wide, unit - 1);
    ctx.strokeStyle = colours.correction;
    ctx.lineWidth = Math.min(2, wide / 3);
    const inset = ctx.lineWidth / 2;
    ctx.strokeRect(left + inset, top + inset, wide - 2 * inset, unit - 1 - 2 * inset);
  }
}

function plus(ctx, x, y, colour) {
  ctx.fillStyle = colour;
  ctx.fillRect(x - 2.5, y - 0.6, 5, 1.2);
  ctx.fillRect(x - 0.6, y - 2.5, 1.2, 5);
}

function box(ctx, x, y, w, t, r) {
  ctx.beginPath();
  ctx.roundRect(x, y, w, t, r);
  ctx.stroke();
}
