// The acceptance rules, in words, and which of them are lossy.

export const LOSSY = ["typical", "lenient", "top-k"];

export const RULE_WORDS = {
  token: "token rule: accept if the coin is below min(1, p/q)",
  block: "block rule: one coin a position, the last that passes decides",
  rrsw: "siblings in turn, without replacement; each faces what the others left",
  deterministic: "the draft was not drawn: the target draws its own token and looks for it",
  greedy: "greedy: the target's best token, no chance involved",
  typical: "typical acceptance, lossy: accept if p lies above min(.3, .09 e^−H(p)); no coin",
  lenient: "leniency, lossy: accept if the coin is below min(1, p / (l q))",
  "top-k": "top-k, lossy: accept what is among the k likeliest tokens of p; no coin",
};
