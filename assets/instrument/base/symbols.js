// The symbols of pictures and formulas: what each means, in the glossary and where it stands.

import { html } from "../vendor/lit-html.js";
import { drawn } from "./templates.js";

export const SYMBOLS = {
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

const MEANT = { ...SYMBOLS, P: SYMBOLS["P, Q"], Q: SYMBOLS["P, Q"] };
const SYMBOL = /(?<![\p{L}\d'])(RRSw|[pquPQcvoαγτ])(?![\p{L}\d'])/u;

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
export function explained(text) {
  return text.split(SYMBOL).map((part, i) => {
    if (i % 2 === 0) return part;
    return html`<span class="symbol" tabindex="0" role="note" aria-label=${`${part}: ${MEANT[part]}`}>${part}</span>`;
  });
}
