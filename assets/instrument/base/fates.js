// What became of tokens and of rounds: shape first, glyph second, colour third.

export const FATES = {
  accepted: { glyph: "✓", word: "accepted" },
  rejected: { glyph: "✗", word: "rejected" },
  correction: { glyph: "↻", word: "correction" },
  bonus: { glyph: "+", word: "bonus" },
  plain: { glyph: "", word: "the target's own" },
  drafted: { glyph: "", word: "not yet judged" },
  unvisited: { glyph: "·", word: "never judged" },
  never_accepted: { glyph: "·", word: "scout" },
};

export const CUT_WORDS = {
  length: "cut at the length asked for",
  eos: "cut: the text ended",
  stop: "cut at a stop string",
};
