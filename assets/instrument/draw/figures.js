// A row of figures, each with its label and what it is divided by. Cells are kept, so that only what changed is set.

import { h, setText } from "../base/dom.js";

export class Figures {
  constructor() {
    this.root = h("dl", { class: "figures" });
  }

  paint(list) {
    const stamp = list.map((f) => f.id).join();
    if (stamp !== this.stamp) {
      this.stamp = stamp;
      this.cells = new Map(
        list.map((f) => [
          f.id,
          { value: h("dd", {}), label: h("dt", { class: "label" }), detail: h("dd", { class: "detail" }) },
        ]),
      );
      this.root.replaceChildren(
        ...list.map((f) => {
          const cell = this.cells.get(f.id);
          return h("div", { class: "figure", "data-figure": f.id }, cell.label, cell.value, cell.detail);
        }),
      );
    }
    for (const f of list) {
      const cell = this.cells.get(f.id);
      cell.value.className = `value ${f.tone || ""}`;
      setText(cell.value, f.value);
      setText(cell.label, f.label);
      setText(cell.detail, f.detail);
    }
  }
}
