// What a drafter or a target notes of a round, in words: the arms of a policy, drafts prepared ahead, a draft's state
// that does not grow, the experts that a verify touched. What is not known is absent from an event.

import { counted, formatFigure, formatMs, formatProb } from "../base/format.js";

const size = (bytes) => (bytes >= 1e6 ? `${formatFigure(bytes / 1e6)} MB` : `${formatFigure(bytes / 1e3)} kB`);
const armWords = (arm) =>
  `${arm.name} ${counted(arm.pulls, "pull")}${arm.tokens_per_s === undefined ? "" : `, ${formatFigure(arm.tokens_per_s)} tokens/s`}`;

const WORDS = {
  policy(note) {
    const known = [note.arms[note.chosen], ...note.arms.filter((_, i) => i !== note.chosen)].map(armWords).join("; ");
    const lot = note.probability === undefined ? "" : `, with probability ${formatProb(note.probability)}`;
    return `${note.policy} chose ${note.arms[note.chosen].name}${lot}. Before this round: ${known}`;
  },
  prefetch: (note) =>
    `${counted(note.outcomes, "outcome")} pre-drafted, ${note.hit ? "hit" : "miss"}: ${formatMs(note.busy_ms)} of drafting, of which the target waited ${formatMs(note.waited_ms)}`,
  tiers: (note) => note.tiers.map((tier) => `${tier.model} ${counted(tier.forwards, "forward")}`).join(", "),
  realignment: (note) =>
    `${counted(note.drafted, "draft-model token")} became ${counted(note.proposed, "target token")}; ${note.read_again} processed again`,
  draft_state: (note) => (note.constant ? `the draft's state takes ${size(note.bytes)}, however long the text is` : ""),
  shared_step: (note) =>
    [
      note.requests > 1 ? `the step was shared with ${counted(note.requests - 1, "other request")}` : "",
      note.q_unknown
        ? "the server sends no q: drafts are its drafter's best tokens, and each counts as drafted with q 1"
        : "",
    ]
      .filter(Boolean)
      .join(" · "),
  experts: (note) =>
    `${counted(note.rows, "row")} touched ${note.touched.join(", ")} of ${note.of} experts per layer; one token activates ${note.active}`,
};

/** Of one round, all that was noted; empty where nothing was. */
export const annotationWords = (round) =>
  (round.annotations || [])
    .map((note) => (WORDS[note.kind] || (() => ""))(note))
    .filter(Boolean)
    .join(" · ");
