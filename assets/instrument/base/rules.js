// The acceptance rules, in words, and which of them are lossy.

export const LOSSY = ["typical", "lenient", "top-k"];

export const RULE_WORDS = {
  token: "token rule: accept if u < min(1, p/q)",
  block: "block verification: the last position with u < h ends the accepted block",
  rrsw: "siblings one after the other (RRSw): a rejection changes p and q for the next",
  deterministic: "deterministic draft: the target samples its own token and looks for it among the children",
  greedy: "greedy: the target's most probable token, no sampling",
  typical: "typical acceptance (lossy): accept if p > min(.3, .09 e^−H(p)); no random number",
  lenient: "leniency (lossy): accept if u < min(1, p / (l q))",
  "top-k": "top-k (lossy): accept if the token is among the k most probable of p; no random number",
};
