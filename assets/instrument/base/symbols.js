// The symbols of pictures and formulas, and the words of the field: what each means, in the glossary and where it stands.

import { html } from "../vendor/lit-html.js";
import { drawn } from "./templates.js";

export const WORDS = {
  token: "what a model reads and writes at a time: a word, a part of one, or a sign",
  pass: "a model computes once; without guesses each pass of the large model writes one token",
  drafter: "whoever guesses the next tokens: a small model, a head, or a copy of the text so far",
  "EAGLE-3 head": "a small network on top of the large model, trained to guess its next tokens",
  "sampled tree": "guesses that branch: at each place several tokens, drawn by the draft's probabilities",
  "n-gram": "a few tokens in a row; where the text's end stood before, what followed it there is the guess",
  temperature: "how much is left to chance: 0 takes the most probable token, 1 draws by the model's own probabilities",
  greedy: "always the most probable token: temperature 0",
  seed: "the number that all random numbers of a run follow from: the same seed draws the same",
  prefill: "the large model reads the prompt, before the first token",
  accepted: "the guess stays in the text, as the large model would have written it",
  correction: "the large model's own token in place of a guess that was rejected",
  bonus: "every guess was accepted, and the same pass gives one more token",
  committed: "part of the text for good",
  residual: "what p has above q, scaled to 1; a correction is drawn from it",
  overconfident: "where the draft gives a token more probability than the target does",
  host: "time between the models' steps, in the program around them",
  fork: "a second text that leaves this one here, with another token or seed",
  bfloat16: "numbers of 16 bits",
  "4-bit": "each weight is kept in about four bits, a quarter of 16: less to read for each token",
  Q4_1: "a format of such weights: 4 bits each, and a scale and a smallest value for every 32",
  Q8_0: "the same with 8 bits each, and a scale for every 32",
};

export const LETTERS = {
  p: "the target's probability of a token at one position",
  q: "the draft's probability of that token",
  u: "a random number between 0 and 1; a draft token is accepted if u is below min(1, p/q)",
  α: "(alpha) the probability that a draft token is accepted",
  γ: "(gamma) tokens drafted in a round",
  τ: "(tau) tokens written in a round: those accepted, and the target's own",
  c: "what a draft step costs, in plain steps",
  v: "what the target's pass over all drafted tokens costs, in plain steps",
  o: "what is left of a round: accepting, committing, bookkeeping, in plain steps",
  "P, Q": "p and q after a sibling was rejected: p loses what q had and is scaled to 1, q loses the sibling",
  RRSw: "recursive rejection sampling without replacement: siblings are tried one after the other",
};

export const SYMBOLS = { ...LETTERS, ...WORDS };

const MEANT = { ...SYMBOLS, P: SYMBOLS["P, Q"], Q: SYMBOLS["P, Q"] };
const wholeWord = (what) => new RegExp(`(?<![\\p{L}\\d'])(${what})(?![\\p{L}\\d'])`, "u");
const SYMBOL = wholeWord("RRSw|[pquPQcvoαγτ]");
const WORD = wholeWord(`RRSw|[pquPQcvoαγτ]|(?:${Object.keys(WORDS).join("|")})`);

/** Whatever text stands below `root`, but for code and what is pressed. */
export function explainIn(root) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode())
    if (SYMBOL.test(walker.currentNode.data) && !walker.currentNode.parentElement.closest(".symbol, pre, code, button"))
      texts.push(walker.currentNode);
  for (const text of texts) text.replaceWith(drawn(explained(text.data)));
}

/** The text in parts: each symbol says what it means when it is pointed at, focused or tapped. */
export const explained = (text) => text.split(SYMBOL).map((part, i) => (i % 2 ? meaning(part) : part));

/** The same of the field's words too, each where it stands first. */
export function explainedWords(text) {
  const seen = new Set();
  return text.split(WORD).map((part, i) => {
    if (i % 2 === 0 || seen.has(part)) return part;
    seen.add(part);
    return meaning(part);
  });
}

const meaning = (part) =>
  html`<span class="symbol" tabindex="0" role="note" aria-label=${`${part}: ${MEANT[part]}`}>${part}</span>`;
