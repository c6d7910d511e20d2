// What templates of lit-html share. A view is a function of what it shows to a template, which `render` draws into its
// root; what did not change since is left alone.

import { html, nothing, render } from "../vendor/lit-html.js";

/** What a template shows now, as nodes: for elements made by `h`. */
export function drawn(template) {
  const nodes = document.createDocumentFragment();
  render(template, nodes);
  return nodes;
}

/** The head of a card: its title, words below it, and what stands beside both. */
export const cardHead = (title, words, beside = nothing) =>
  html`<header class="card-head">
    <div class="head-text">
      <h3>${title}</h3>
      <p class="note">${words}</p>
    </div>
    ${beside}
  </header>`;

/** A token that a sentence quotes. */
export const quoted = (token) => html`<code class="quoted">${token}</code>`;

/** Tokens with commas between them. */
export const quotedList = (tokens) => tokens.map((token, i) => [i ? ", " : "", quoted(token)]);

export const smallButton = (words, act, disabled = false, label = nothing) =>
  html`<button class="small" type="button" aria-label=${label} ?disabled=${disabled} @click=${act}>${words}</button>`;

/** `options` are [value, words]; `choose` is called with the value that is chosen. */
export const choice = (label, options, chosen, choose) =>
  html`<select aria-label=${label} @change=${({ target }) => choose(target.value)}>
    ${options.map(([value, words]) => html`<option value=${value} .selected=${value === chosen}>${words}</option>`)}
  </select>`;

/** `choose` is called with whether it is checked. */
export const checkbox = (words, checked, choose) =>
  html`<label>
    <input type="checkbox" .checked=${checked} @change=${({ target }) => choose(target.checked)} />
    ${words}
  </label>`;
