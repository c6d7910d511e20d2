// What became of tokens and of rounds: shape first, glyph second, colour third.

export const FATES = {
  accepted: { glyph: "✓", word: "accepted" },
  rejected: { glyph: "✗", word: "rejected" },
  correction: { glyph: "↻", word: "correction" },
  bonus: { glyph: "+", word: "bonus" },
  plain: { glyph: "", word: "target's own token" },
  drafted: { glyph: "", word: "not yet verified" },
  unvisited: { glyph: "·", word: "not reached" },
  never_accepted: { glyph: "·", word: "guess, never accepted" },
};

export const CUT_WORDS = {
  length: "cut at the length limit",
  eos: "cut at the end of text",
  stop: "cut at a stop string",
};
