// One sentence for the reader, above everything else.

import { button, h, setText } from "../base/dom.js";
import { html, nothing, render } from "../vendor/lit-html.js";

export class Message {
  constructor() {
    this.text = h("p");
    this.field = h("input", { readonly: true, "aria-label": "Link to this page with its settings", hidden: true });
    this.offers = h("span.controls");
    this.code = h("div.code", { hidden: true });
    const close = button("Close", () => this.hide());
    this.box = h("div.message", { hidden: true }, this.text, this.field, this.offers, this.code, close);
    this.root = h("div.messages", { role: "status" }, this.box);
  }

  /** Beside it a `link` as selectable text, `offers` ({text, act} each) as buttons, and a `code` (rows of 0 and 1) of
   *  the link for cameras. */
  say(text, link, offers = [], code = []) {
    this.root.classList.toggle("in-place", Boolean(link || offers.length || code.length)); // too large to lie over the run
    this.code.hidden = !code.length;
    render(code.length ? drawnCode(code) : nothing, this.code);
    setText(this.text, text || "");
    this.box.hidden = !text;
    this.offers.hidden = !offers.length;
    this.offers.replaceChildren(...offers.map((offer) => button(offer.text, offer.act)));
    this.field.hidden = !link;
    this.field.value = link || "";
    if (link) this.field.select();
  }

  hide() {
    this.box.hidden = true;
  }
}

/** Always dark on white, with the quiet edge that cameras need. */
function drawnCode(rows) {
  const edge = 4;
  const size = rows.length + 2 * edge;
  const dots = rows.flatMap((row, y) =>
    Array.from(row, (dot, x) => (dot === "1" ? `M${x + edge} ${y + edge}h1v1h-1z` : "")),
  );
  return html`<svg viewBox="0 0 ${size} ${size}" role="img" aria-label="QR code of the link">
    <rect width=${size} height=${size} fill="#fff"></rect>
    <path d=${dots.join("")} fill="#000"></path>
  </svg>`;
}
