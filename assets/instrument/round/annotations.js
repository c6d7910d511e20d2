// What a drafter or a target notes of a round, in words: the arms of a policy, drafts prepared ahead, a draft's state
// that does not grow, the experts that a verify touched. What is not known is absent from an event.

(function (D) {
  "use strict";

  const size = (bytes) => (bytes >= 1e6 ? `${D.figure(bytes / 1e6)} MB` : `${D.figure(bytes / 1e3)} kB`);
  const arm = (own) => `${own.name} ${D.count(own.pulls, "pull")}${own.tokens_per_s === undefined ? "" : `, ${D.figure(own.tokens_per_s)} tokens/s`}`;

  const WORDS = {
    policy(note) {
      const known = [note.arms[note.chosen], ...note.arms.filter((_, i) => i !== note.chosen)].map(arm).join("; ");
      const lot = note.probability === undefined ? "" : `, with probability ${D.prob(note.probability)}`;
      return `${note.policy} chose ${note.arms[note.chosen].name}${lot}. Known before: ${known}`;
    },
    prefetch: (note) =>
      `${D.count(note.outcomes, "outcome")} prepared for, ${note.hit ? "hit" : "missed"}: ${D.time(note.busy_ms)} of drafting, ${D.time(note.waited_ms)} of it waited for`,
    tiers: (note) => note.tiers.map((tier) => `${tier.model} ${D.count(tier.forwards, "forward")}`).join(", "),
    realignment: (note) => `${D.count(note.drafted, "token")} of the draft's own became ${note.proposed} of the target's; ${note.read_again} read again`,
    draft_state: (note) => (note.constant ? `the draft keeps ${size(note.bytes)} of this text, as of any other` : ""),
    experts: (note) => `${D.count(note.rows, "row")} touched ${note.touched.join(", ")} of ${note.of} experts, layer by layer; one token wakes ${note.active}`,
  };

  /** Of one round, all that was noted; empty where nothing was. */
  D.annotationWords = (round) => (round.annotations || []).map((note) => (WORDS[note.kind] || (() => ""))(note)).filter(Boolean).join(" · ");
})(window.Draftscope);
