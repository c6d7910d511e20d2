// What the page tells when asked: parts below the round, closed until their button is pressed.

(function (D) {
  "use strict";
  const { h } = D;

  D.Unfold = class Unfold {
    /** `parts`: title -> a view with `root` and `paint(now)`. */
    constructor(parts, repaint) {
      this.parts = Object.entries(parts).map(([title, view], i) => {
        const section = h("section", { class: "card", id: `unfold-${i}`, "aria-label": title, hidden: true }, h("h3", { text: title }), view.root);
        const button = h("button", { type: "button", class: "small unfold", "aria-expanded": "false", "aria-controls": `unfold-${i}`, text: title, on: { click: () => this.toggle(i, repaint) } });
        return { view, section, button };
      });
      this.root = h("div", { class: "unfolds" }, h("div", { class: "controls" }, this.parts.map((part) => part.button)), this.parts.map((part) => part.section));
    }

    toggle(i, repaint) {
      const { section, button } = this.parts[i];
      section.hidden = !section.hidden;
      button.setAttribute("aria-expanded", String(!section.hidden));
      repaint();
    }

    paint(state) {
      for (const { view, section } of this.parts) if (!section.hidden) view.paint(state);
    }
  };
})(window.Draftscope);
