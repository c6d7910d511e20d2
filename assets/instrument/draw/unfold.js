// Parts below the round, closed until their button is pressed: `buttons` and `root` stand apart.

import { h } from "../base/dom.js";

export class Unfold {
  /** `parts`: title -> a view with `root` and `paint(now)`. */
  constructor(parts, repaint) {
    this.parts = Object.entries(parts).map(([title, view], i) => {
      const section = h(
        "section.card",
        { id: `unfold-${i}`, "aria-label": title, hidden: true },
        h("h3", title),
        view.root,
      );
      const button = h(
        "button.unfold",
        {
          type: "button",
          "aria-expanded": "false",
          "aria-controls": `unfold-${i}`,
          on: { click: () => this.toggle(i, repaint) },
        },
        title,
      );
      return { view, section, button };
    });
    this.buttons = h(
      "div.controls.unfold-buttons",
      this.parts.map((part) => part.button),
    );
    this.root = h(
      "div.unfolds",
      this.parts.map((part) => part.section),
    );
  }

  /** Opens or closes the part of that title, without painting. */
  set(title, open) {
    const { section, button } = this.parts.find((part) => part.section.getAttribute("aria-label") === title);
    section.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
  }

  toggle(i, repaint) {
    const { section, button } = this.parts[i];
    section.hidden = !section.hidden;
    button.setAttribute("aria-expanded", String(!section.hidden));
    repaint();
    if (!section.hidden) section.scrollIntoView({ block: "nearest" });
  }

  paint(state) {
    for (const { view, section, button } of this.parts) {
      button.hidden = Boolean(view.absent && view.absent()); // needs an engine, and there is none
      if (!section.hidden) view.paint(state);
    }
  }
}
