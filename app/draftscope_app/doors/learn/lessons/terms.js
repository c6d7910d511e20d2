// The terms that lessons explain, and the glossary. Those of metrics come from the engine's glossary, with the page.

import { given } from "../../../base/given.js";
import { LETTERS, SYMBOLS, WORDS } from "../../../base/symbols.js";
import { html } from "../../../vendor/lit-html.js";

const TERMS = {
  target: "the large model; its distribution p is what the output must follow",
  draft: "the small, fast model, or anything else that proposes tokens; its distribution is q",
  forward: "one pass through all layers of a model",
  rows: "the tokens that one forward processes in parallel; each gets a distribution of its next token",
  round: "one draft, one target forward that verifies it, and the tokens accepted",
  distribution: "the probabilities of all tokens at one position",
  "random number": "u, uniform between 0 and 1, used once",
  threshold: "what u is compared with: a draft token is accepted if u is below it",
  "residual distribution": "norm((p − q)+): what p has above q, normalised",
  "bonus token": "the target's token after a draft that was accepted to its end",
  "guess rows": "rows that a lookahead decoder computes to collect n-grams; they are never accepted",
  head: "a small network that reads the target's hidden states and proposes tokens",
  "hidden state": "the output of a layer of the target at one token",
  outcome: "how many draft tokens are accepted, and which token follows them",
  mask: "which rows attend to which: each sees the text so far, its ancestors and itself",
  burst: "tokens of a server that arrive together: what one of its rounds wrote, as far as that is seen from here",
  "teacher forcing": "the target reads a finished text and gives the probability of each of its tokens",
  audit: "a test of whether a server's texts still follow its target's distribution",
  ITL: "",
  ICL: "",
  TTFT: "",
  "acceptance length": "",
};
const METRICS = { ITL: "itl_ms", ICL: "icl_ms", TTFT: "ttft_ms", "acceptance length": "mean_acceptance_length" };

export const defineTerm = (term) => TERMS[term] || given.metrics[METRICS[term]] || SYMBOLS[term] || "";
export const LESSON_TERMS = Object.keys(TERMS);

/** The letters of formulas, then every word of the field once, in the order of a dictionary. */
export function glossaryNames() {
  const names = new Set([...Object.keys(WORDS), ...LESSON_TERMS].filter((name) => defineTerm(name)));
  return [...Object.keys(LETTERS), ...[...names].sort((one, other) => one.localeCompare(other, "en"))];
}

export function glossary() {
  const entry = (name) =>
    html`<div>
      <dt>${name}</dt>
      <dd>${defineTerm(name)}</dd>
    </div>`;
  return html`<dl class="glossary">${glossaryNames().map(entry)}</dl>`;
}
