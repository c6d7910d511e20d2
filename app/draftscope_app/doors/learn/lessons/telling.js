// What all lessons tell with: words for what a recording holds, and moves of the page's own cursor.

import { formatFigure, formatProb, visible } from "../../../base/format.js";
import { beatsOf } from "../../../base/stages.js";
import { nodeOf } from "../../../base/store.js";
import { html } from "../../../vendor/lit-html.js";

export const code = (words) => html`<code>${words}</code>`;
export const token = (raw) => code(visible(raw));
export const listed = (raws) => raws.flatMap((raw, i) => (i ? [" ", token(raw)] : [token(raw)]));
export const equals = (x) => formatProb(x).replace(/^(?![<>])/, "= "); // "= .81", but "<.001"
export const times = (x) => `${formatFigure(x)} times`;
export const perRound = (lane) => lane.tokens.length / lane.rounds.length;
export const drafting = (store, drafter) => store.lanes.find((lane) => lane.start.drafter === drafter);

/** Every verified child of a lane, with where it was verified. */
export const verifiedChildren = (lane) =>
  lane.rounds
    .filter((r) => !r.cut)
    .flatMap((round) =>
      round.decisions.flatMap((decision) =>
        decision.children.map((child, i) => ({ round, decision, child, i, node: nodeOf(round, child.node) })),
      ),
    );

export const atEnd = (host) => host.transport.toEnd();

/** The page at a child's decision, before its u is drawn (`after` 0) or after it. */
export function atChild(host, lane, { round, decision, node }, after) {
  host.cursor.select(lane, round.index);
  host.cursor.toBeat(beatsOf(round).findIndex((beat) => beat.nodes.includes(node.id)) - 1 + after);
  host.cursor.point(decision.slot, node.id);
}

/** The page at a child's decision when all of its round is known. */
export function atEndOf(host, lane, { round, decision, node }) {
  atStage(host, lane, round, "commit");
  host.cursor.point(decision.slot, node.id);
}

export function atStage(host, lane, round, stage) {
  host.cursor.select(lane, round.index);
  host.cursor.toStage(stage);
}
