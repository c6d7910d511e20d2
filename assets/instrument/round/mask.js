// The tree-attention mask: which row of the target's one forward sees which. It follows from the parents alone.
//
// Every row sees the text so far, its ancestors and itself. Drawn on a canvas, because a tree may have hundreds of
// rows; the arrow keys walk the rows, and the table of the same card lists them.

import { h, setText, zoomOf } from "../base/dom.js";
import { shorten } from "../base/format.js";
import { sized } from "../draw/canvas.js";

const HEADS = ["the text so far", "the tokens of this round"];
const LABELLED = 40; // rows; more than these are drawn without names

/** Pure: row i sees the rows `sees[i]`. Row 0 is the last committed token, row i + 1 the node of index i. */
export function maskOf(nodes) {
  const rowOf = new Map([[-1, 0], ...nodes.map((node, i) => [node.id, i + 1])]);
  const sees = [[0]];
  for (const [i, node] of nodes.entries()) sees.push([...(sees[rowOf.get(node.parent)] || sees[0]), i + 1]);
  return sees;
}

export class MaskFace {
  constructor(open) {
    this.open = open; // (key) of the selected row
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.frame = h(
      "div.mask-frame",
      { tabindex: "0", role: "slider", "aria-label": "What each token of this round sees", "aria-valuemin": "1" },
      this.canvas,
    );
    this.words = h("p.note", { "aria-hidden": "true" });
    this.root = h("div.mask", this.frame, this.words);
    this.canvas.redraw = () => this.draw(this.colours);
    this.frame.addEventListener("keydown", (event) => this.keys(event));
    this.canvas.addEventListener("click", (event) => {
      const item = this.items[this.rowAt(event)];
      if (item) this.open(item.key);
    });
    this.canvas.addEventListener("pointermove", (event) => this.point(this.rowAt(event)));
    this.canvas.addEventListener("pointerleave", () => this.point(undefined));
  }

  paint(items, nodes, chosen, room, colours) {
    this.items = items.filter((item) => item.key !== "last");
    this.sees = maskOf(nodes);
    const rows = this.sees.length;
    this.at = Math.max(
      0,
      this.items.findIndex((item) => item === chosen),
    );
    this.left = rows <= LABELLED ? 104 : 8;
    this.cell = Math.max(
      3,
      Math.min(24, Math.floor(Math.min((room.width - this.left - 120) / rows, (room.height - 34) / rows))),
    );
    this.gap = this.cell > 8 ? 2 : 0;
    this.colours = colours;
    if (!this.items[this.over]) this.over = undefined;
    this.draw(colours);
    setText(this.words, this.rowWords(this.lit));
    this.frame.setAttribute("aria-valuemax", String(rows));
    this.frame.setAttribute("aria-valuenow", String(this.at + 1));
    this.frame.setAttribute("aria-valuetext", this.rowWords(this.at));
  }

  /** The highlighted row: the one under the pointer, else the selected one. */
  get lit() {
    return this.over ?? this.at;
  }

  rowWords(row) {
    const seen = this.sees[row];
    const names = seen.slice(0, -1).map((above) => this.items[above].label);
    return `Token ${row + 1} of ${this.sees.length}, ${this.items[row].label}: sees the text so far${names.length ? ", " + names.join(", ") : ""} and itself; position +${seen.length - 1}`;
  }

  point(row) {
    const over = this.items[row] ? row : undefined;
    if (over === this.over) return;
    this.over = over;
    this.draw(this.colours);
    setText(this.words, this.rowWords(this.lit));
  }

  draw(colours) {
    const { cell, gap, left, sees } = this;
    const [before, beside] = this.headWidths(colours);
    const past = Math.max(92, before); // width of the block for the text so far
    const x0 = left + past + 8;
    const ctx = sized(this.canvas, x0 + Math.max(sees.length * cell, beside) + 2, sees.length * cell + 22);
    ctx.font = `${colours.small + 0.5}px ${colours.mono}`;
    ctx.textBaseline = "middle";
    sees.forEach((seen, row) => {
      const y = 18 + row * cell;
      ctx.fillStyle = colours.ink;
      ctx.globalAlpha = row === this.lit ? 0.5 : 0.2;
      ctx.fillRect(left, y, past, cell - gap);
      ctx.globalAlpha = 1;
      const on = new Set(seen);
      for (let column = 0; column < sees.length; column++) {
        ctx.fillStyle = on.has(column) ? colours.ink : colours.soft;
        ctx.globalAlpha = on.has(column) && row !== this.lit ? 0.72 : 1;
        ctx.fillRect(x0 + column * cell, y, cell - gap, cell - gap);
      }
      ctx.globalAlpha = 1;
      if (sees.length <= LABELLED) this.label(ctx, row, y + cell / 2, colours);
    });
    ctx.fillStyle = colours.muted;
    ctx.font = `${colours.small}px ${colours.sans}`;
    ctx.fillText(HEADS[0], left, 8);
    ctx.fillText(HEADS[1], x0, 8);
    ctx.strokeStyle = colours.ink;
    ctx.lineWidth = 1.5;
    ctx.strokeRect(left - 1, 17 + this.at * cell, x0 - left + sees.length * cell + 1, cell - gap + 2);
  }

  headWidths(colours) {
    const ctx = this.canvas.pen ?? this.canvas.getContext("2d");
    ctx.font = `${colours.small}px ${colours.sans}`;
    return HEADS.map((words) => Math.ceil(ctx.measureText(words).width));
  }

  label(ctx, row, y, colours) {
    ctx.fillStyle = this.sees[this.lit].includes(row) ? colours.ink : colours.muted;
    ctx.textAlign = "right";
    if (this.cell >= 11) ctx.fillText(shorten(this.items[row].label, 12), this.left - 8, y);
    ctx.textAlign = "left";
  }

  rowAt(event) {
    return Math.floor(
      ((event.clientY - this.canvas.getBoundingClientRect().top) / zoomOf(this.canvas) - 18) / this.cell,
    );
  }

  keys(event) {
    const to = { ArrowUp: this.at - 1, ArrowDown: this.at + 1, Home: 0, End: this.items.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    if (this.items[to]) this.open(this.items[to].key);
  }
}
