// What the pages of a class draw alike: a page, a question, the guesses of a round and what became of them. A value is
// a text node or an attribute, and no style is inline: the pages' policy forbids it.

import { html, nothing, render } from "../vendor/lit-html.js";

const FATES = {
  accepted: ["✓", "accepted"],
  rejected: ["✗", "rejected"],
  correction: ["↻", "the target's own instead"],
  bonus: ["+", "bonus of the target"],
  unvisited: ["·", "never judged"],
  never_accepted: ["·", "never judged"],
};

/** Draws the whole page. `lost` is a sentence, or empty where nothing is amiss. */
export function showPage(head, lost, main, rest) {
  const view = html`
    <header>${head}</header>
    <p id="lost" role="alert" ?hidden=${!lost}>${lost}</p>
    <main>${main}</main>
    ${rest}
  `;
  render(view, document.body);
}

/** The header of the presenter's own pages. */
export const roomHead = (where, code, joined) =>
  html`<a href="./">Draftscope</a><span>${where}</span><span class="room">room <b id="code">${code}</b></span
    ><span><b>${joined}</b> in the room</span>`;

export const press = (words, act, look = nothing) =>
  html`<button class=${look} type="button" @click=${act}>${words}</button>`;

/** A question with what is known of its round. */
export const questionOf = (title, { context, guesses, hints }) => html`
  <h1>${title}</h1>
  ${context ? html`<p class="context">${context}</p>` : nothing} ${guesses.length ? guessesOf(guesses) : nothing}
  ${hints.map((text) => html`<p class="hint">${text}</p>`)}
`;

export const sumOf = (counts) => counts.reduce((sum, count) => sum + count, 0);

/** .5 for 0.5, 1 for 1. */
const short = (value) => (value > 0 && value < 0.005 ? "<.01" : value.toFixed(2).replace(/^(1)\.00$|^0/, "$1"));

/** The guesses in order, or as the tree that they are. Before the reveal they have no fate, and the draft's colour. */
function guessesOf(guesses) {
  const nodes = guesses.filter(({ fate }) => fate !== "correction" && fate !== "bonus");
  if (nodes.some(({ parent }, n) => (parent ?? n - 1) !== n - 1)) return treeOf(nodes, guesses[nodes.length]);
  const view = (guess) => html`<li class=${guess.fate ?? "drafted"}>${tokenOf(guess)} ${numbersOf(guess)}</li>`;
  return html`<ol class="guesses" aria-label="Guesses of the draft">
    ${guesses.map(view)}
  </ol>`;
}

/** What the class was given, and what is written so far. */
export const writtenOf = ({ prompt, context }) => html`
  <p class="context">${prompt}</p>
  ${context ? html`<p class="written">${context}</p>` : nothing}
`;

/** What became of a round that a class drafted. */
export const keptOf = ({ kept }) => {
  const last = kept.at(-1);
  return last ? `${last} of your tokens ${last === 1 ? "was" : "were"} kept.` : "None of your tokens was kept.";
};

/** A class's tree: a list in lists, from left to right. */
export function treeOf(nodes, last) {
  const below = (parent) => {
    const children = nodes.map((node, n) => [node, n]).filter(([node]) => node.parent === parent);
    const view = ([node, n]) => html`<li>${branchOf(node)} ${below(n)}</li>`;
    return children.length ? listOf(nothing, children.map(view)) : nothing;
  };
  const target = () =>
    html`<p class="guesses ${last.fate}"><span class=${last.fate}>then the target: ${tokenOf(last)}</span></p>`;
  return html`<div class="tree">${below(-1)} ${last ? target() : nothing}</div>`;
}

const branchOf = (node) =>
  html`<span class="branch ${node.fate ?? "drafted"}">
    ${tokenOf(node)} ${node.votes === undefined ? numbersOf(node) : line(`${node.votes} proposed  p ${short(node.p)}`)}
  </span>`;

/** A step of a lesson in words and a picture for any width: guesses, bars, or a table. */
export const stepOf = ({ words, guesses, bars, rows }) => html`
  <p class="said">${words}</p>
  ${guesses.length ? guessesOf(guesses) : nothing} ${barsOf(bars)} ${rows.length ? tableOf(rows) : nothing}
`;

/** Measured quantities, named, the longest of them as wide as there is room. */
export const barsOf = (bars) => (bars.length ? listOf("bars", bars.map(barOf)) : nothing);

const listOf = (look, items) =>
  html`<ul class=${look}>
    ${items}
  </ul>`;

const barOf = ({ name, value, part }) =>
  html`<li><b>${name}</b><span .style=${`width: ${100 * part}%`}></span><small>${value}</small></li>`;

const tableOf = (rows) =>
  html`<table>
    ${rows.map(rowOf)}
  </table>`;

/** The first one is the head. */
const rowOf = (cells, n) =>
  html`<tr>
    ${cells.map((text) => (n ? html`<td>${text}</td>` : html`<th>${text}</th>`))}
  </tr>`;

const tokenOf = ({ text, fate }) => html`<span class="token">${text}${fate ? fateOf(FATES[fate]) : nothing}</span>`;

const fateOf = ([glyph, words]) =>
  html`<span class="glyph" aria-hidden="true">${glyph}</span><span class="spoken">, ${words}</span>`;

function numbersOf({ fate, p, q, threshold, u }) {
  if (fate === "correction" || fate === "bonus" || fate === "unvisited") return line(FATES[fate][1]);
  return [
    isNumber(p) && isNumber(q) ? line(`p ${short(p)}  q ${short(q)}`) : nothing,
    isNumber(threshold) && isNumber(u) ? line(`ratio ${short(threshold)}  u ${short(u)}`) : nothing,
  ];
}

const isNumber = (value) => typeof value === "number";
const line = (text) => html`<small>${text}</small>`;
