// One sentence for the reader, above everything else.

import { h, setText } from "../base/dom.js";

export class Message {
  constructor() {
    this.text = h("p", {});
    this.field = h("input", { readonly: true, "aria-label": "Link to this page with its settings", hidden: true });
    this.offer = h("button", { class: "small", type: "button", hidden: true, on: { click: () => this.act() } });
    const close = h("button", { class: "small", type: "button", text: "Close", on: { click: () => this.hide() } });
    this.box = h("div", { class: "message", hidden: true }, this.text, this.field, this.offer, close);
    this.root = h("div", { role: "status" }, this.box);
  }

  /** Beside it a `link` as selectable text, an `offer` {text, act} as a button. */
  say(text, link, offer) {
    setText(this.text, text || "");
    this.box.hidden = !text;
    this.offer.hidden = !offer;
    this.act = offer ? offer.act : null;
    setText(this.offer, offer ? offer.text : "");
    this.field.hidden = !link;
    this.field.value = link || "";
    if (link) this.field.select();
  }

  hide() {
    this.box.hidden = true;
  }
}
