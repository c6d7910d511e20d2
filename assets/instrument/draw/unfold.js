// Parts below the round, closed until their button is pressed: `buttons` and `root` stand apart.

import { h } from "../base/dom.js";
import { html, render } from "../vendor/lit-html.js";

/** What was asked for is seen, and has room to grow: it begins in the upper half of the window, if the page is long enough. */
function intoView(part) {
  const { top, bottom } = part.getBoundingClientRect();
  if (top < 0 || top > innerHeight / 2 || bottom > innerHeight) part.scrollIntoView({ block: "start" });
}

export class Unfold {
  /** `parts`: title -> a view with `root` and `paint(now)`. */
  constructor(parts, repaint) {
    this.parts = Object.entries(parts).map(([title, view], i) => ({ title, view, id: `unfold-${i}`, open: false }));
    this.repaint = repaint;
    this.buttons = h("div.controls.unfold-buttons");
    this.root = h("div.unfolds");
    this.draw();
  }

  /** Opens or closes the part of that title, without painting. */
  set(title, open) {
    this.parts.find((part) => part.title === title).open = open;
    this.draw();
  }

  toggle({ title, open, id }) {
    this.set(title, !open);
    this.repaint();
    if (!open) intoView(this.root.querySelector(`#${id}`));
  }

  paint(state) {
    this.draw();
    for (const { view, open } of this.parts) if (open) view.paint(state);
  }

  /** A part that needs an engine, where there is none, has no button. */
  draw() {
    const button = (part) =>
      html`<button
        class="unfold"
        type="button"
        aria-expanded=${part.open}
        aria-controls=${part.id}
        ?hidden=${part.view.absent?.()}
        @click=${() => this.toggle(part)}
      >
        ${part.title}
      </button>`;
    const section = ({ title, view, id, open }) =>
      html`<section class="card" id=${id} aria-label=${title} ?hidden=${!open}>
        <h3>${title}</h3>
        ${view.root}
      </section>`;
    render(this.parts.map(button), this.buttons);
    render(this.parts.map(section), this.root);
  }
}
