// What a drafter or a target notes of a round, in words: the arms of a policy, drafts prepared ahead, a draft's state
// that does not grow, the experts that a verify touched.

(function (D) {
  "use strict";

  const size = (bytes) => (bytes >= 1e6 ? `${D.figure(bytes / 1e6)} MB` : `${D.figure(bytes / 1e3)} kB`);
  const arm = (own) => `${own.name} ${D.count(own.pulls, "pull")}${own.tokens_per_s === null ? "" : `, ${D.figure(own.tokens_per_s)} tokens/s`}`;

  const WORDS = {
    policy(note) {
      const others = note.arms.filter((_, i) => i !== note.chosen).map(arm).join("; ");
      const lot = note.probability === null ? "" : `, with probability ${D.prob(note.probability)}`;
      return `${note.policy} chose ${note.arms[note.chosen].name}${lot}. Known before: ${arm(note.arms[note.chosen])}; ${others}`;
    },
    prefetch: (note) =>
      `${D.count(note.outcomes, "outcome")} prepared for, ${note.hit ? "hit" : "missed"}: ${D.time(note.busy_ms)} of drafting, ${D.time(note.waited_ms)} of it waited for`,
    draft_state: (note) => (note.constant ? `the draft keeps ${size(note.bytes)} of this text, as of any other` : ""),
    experts: (note) => `${D.count(note.rows, "row")} touched ${note.touched.join(", ")} of ${note.of} experts, layer by layer; one token wakes ${note.active}`,
  };

  /** Of one round, all that was noted; empty where nothing was. */
  D.annotationWords = (round) => (round.annotations || []).map((note) => (WORDS[note.kind] || (() => ""))(note)).filter(Boolean).join(" · ");
})(window.Draftscope);
