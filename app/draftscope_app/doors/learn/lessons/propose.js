// Two pictures of proposing that only lessons show: one round's proposal of every drafter on one ruler, and what was
// prepared while the target verified. Folded from the run like everything else.

import { counted, formatFigure, formatMs, median } from "../../../base/format.js";
import { costsOf, draftForwards, sum } from "../../../base/numbers.js";
import { plainLane } from "../../../base/store.js";
import { foldedTable, scrollable, table } from "../../../draw/tables.js";
import { proposeParts, scaleRow } from "../../../round/scale.js";
import { laneTitle } from "../../../run/titles.js";
import { html, svg } from "../../../vendor/lit-html.js";

const proposing = (round) => sum(round.timings.propose);

/** The recorded round whose proposing took the lane's median time. */
function typicalProposal(lane) {
  const whole = lane.rounds.filter((r) => r.drafted && !r.cut).sort((a, b) => proposing(a) - proposing(b));
  return whole[(whole.length - 1) >> 1] || null;
}

/** The drafting lanes that have proposed, each with that round. */
export const proposalsOf = (store) =>
  store.lanes
    .filter((lane) => lane !== plainLane(store))
    .map((lane) => ({ lane, round: typicalProposal(lane) }))
    .filter(({ round }) => round);

/** A bar for each lane's proposal, and above them one forward of the plain lane. A block, clicked, opens its round. */
export function proposePicture(store, host) {
  const rounds = plainLane(store).rounds;
  const one = median(rounds.map((r) => r.timings.verify));
  const all = proposalsOf(store).map((at) => ({ ...at, ms: proposing(at.round), steps: draftForwards(at.round) }));
  const ruler = Math.max(one, ...all.map(({ ms }) => ms));
  const open = (at) => (part) => {
    host.cursor.select(at.lane, at.round.index);
    host.cursor.light(part.nodes);
  };
  const words = ({ round, ms, steps }) =>
    `${formatMs(ms)} for ${counted(round.drafted, "token")}: ${counted(steps.length, "forward")}, ${formatMs(sum(steps))} and other drafting work`;
  const first = scaleRow(
    "plain, one token",
    [{ ms: one, kind: "verify", words: "target, 1 token" }],
    ruler,
    `${formatMs(one)}: a pass of the target over one token, median of ${rounds.length}`,
  );
  const cells = ({ lane, round, ms, steps }) => [
    laneTitle(lane),
    round.index + 1,
    round.drafted,
    steps.length,
    formatMs(sum(steps)),
    formatMs(ms - sum(steps)),
    formatMs(ms),
    formatFigure(ms / one),
  ];
  const heads = ["lane", "round", "drafted", "forwards", "forward time", "other", "total", "/ plain forward"];
  return html`<div class="scale-body">
    ${first} ${all.map((at) => scaleRow(laneTitle(at.lane), proposeParts(at.round), ruler, words(at), open(at)))}
    <p class="sum">${PROPOSED}</p>
    ${foldedTable("The drafts as a table", heads, all.map(cells))}
  </div>`;
}

const PROPOSED =
  "For each lane the recorded round whose drafting took the median time, all on the same scale. Click a block to open its round.";

/**
 * Of a chain, place by place: how many rounds reached it (everything before it was accepted), and how many accepted it.
 */
export function byPlace(lane) {
  const places = [];
  for (const round of lane.rounds.filter((r) => !r.cut)) {
    for (const [k, node] of round.nodes.entries()) {
      places[k] = places[k] || { reached: 0, accepted: 0 };
      places[k].reached++;
      if (node.fate !== "accepted") break;
      places[k].accepted++;
    }
  }
  return places;
}

/** What the proposals were worth: tokens a round, place by place, and the pace. A table that is its own picture. */
export function worthPicture(store) {
  const lanes = proposalsOf(store).map(({ lane }) => ({
    lane,
    places: byPlace(lane),
    costs: costsOf(lane, plainLane(store)),
  }));
  const deepest = Math.max(...lanes.map(({ places }) => places.length));
  const cell = (at) =>
    at
      ? html`<i class="share" style="width: ${(44 * at.accepted) / at.reached}px"></i>${at.accepted} of ${at.reached}`
      : "not reached";
  const head = [
    "lane",
    "× plain",
    "tokens per round",
    "drafting / plain round",
    ...Array.from({ length: deepest }, (_, k) => `position ${k + 1} accepted`),
  ];
  const row = ({ lane, places, costs }) => [
    laneTitle(lane),
    html`<b>${formatFigure(costs.measured)}×</b>`,
    formatFigure(costs.tau),
    formatFigure(costs.per * costs.c),
    ...Array.from({ length: deepest }, (_, k) => cell(places[k])),
  ];
  const rows = lanes.filter(({ costs }) => costs).map(row);
  return html`<div class="worth">
    ${scrollable("What each drafter gained", table(head, rows))}
    <p class="sum">${WORTH}</p>
  </div>`;
}

const WORTH =
  "A position is reached if all draft tokens before it were accepted; rounds cut by a limit are excluded. Drafting: draft steps per round times the median step. × plain: tokens per millisecond of whole lanes, without reading the prompt.";

// Prepared while the target verified.

/** Of each round that prepared drafts: its note, and the proposing of the round behind it. */
export const prefetchedOf = (lane) =>
  lane.rounds.flatMap((round, i) => {
    const note = (round.annotations || []).find((annotation) => annotation.kind === "prefetch");
    const next = lane.rounds[i + 1];
    return note && next ? [{ round, note, propose: proposing(next) }] : [];
  });

const [WIDE, UP, DOWN] = [1000, 70, 50]; // the next proposing above the line, drafting ahead below it

/** A column for each round: above the line what the next draft still took, below it the drafting ahead. */
export function prefetchPicture(lane) {
  const all = prefetchedOf(lane);
  const most = Math.max(...all.map((at) => at.propose));
  const busiest = Math.max(...all.map(({ note }) => note.busy_ms));
  const step = WIDE / all.length;
  const box = (i, from, tall, look) =>
    svg`<rect class=${look} x=${i * step + step * 0.18} width=${step * 0.64} y=${from} height=${Math.max(0, tall)}></rect>`;
  const column = ({ note, propose }, i) => [
    box(i, UP - (UP * propose) / most, (UP * propose) / most, note.hit ? "hit" : "miss"),
    box(i, UP + 4, ((DOWN - 4) * note.busy_ms) / busiest, "busy"),
    box(i, UP + 4, ((DOWN - 4) * Math.min(note.waited_ms, note.busy_ms)) / busiest, "waited"),
  ];
  const hits = all.filter(({ note }) => note.hit).length;
  const key = (look, words) => html`<span class="key"><i class=${look}></i>${words}</span>`;
  const heads = ["round", "drafted for", "result", "drafting ahead", "target waited", "next draft"];
  const cells = ({ round, note, propose }) => [
    round.index + 1,
    counted(note.outcomes, "outcome"),
    note.hit ? "hit" : "miss",
    formatMs(note.busy_ms),
    formatMs(note.waited_ms),
    formatMs(propose),
  ];
  return html`<div class="prefetch">
    <svg
      viewBox="0 0 ${WIDE} ${UP + DOWN}"
      preserveAspectRatio="none"
      role="img"
      aria-label="${counted(all.length, "round")} drafted ahead; ${hits} hits"
    >
      <path class="line" d="M0 ${UP + 1}H${WIDE}"></path>
      ${all.map(column)}
    </svg>
    <p class="ends">
      <span>up: time of the next draft, at most ${formatMs(most)}</span
      ><span>down: drafting ahead, at most ${formatMs(busiest)}</span>
    </p>
    <p class="legend">
      ${key("hit", "hit: already drafted")}${key("miss", "miss: drafted again")}${key("busy", "while the target verified")}${key("waited", "target waited")}
    </p>
    ${foldedTable("The rounds as a table", heads, all.map(cells))}
  </div>`;
}
