// A canvas context that writes down what is drawn, as SVG: the strip and the mask leave as lines and text, not as
// pixels.
//
// It knows what those two draw with and nothing more.

import { s } from "../base/dom.js";

const ANCHOR = { left: "start", center: "middle", right: "end" };

export class Pen {
  constructor() {
    this.group = s("g");
    this.ruler = document.createElement("canvas").getContext("2d");
    Object.assign(this, {
      fillStyle: "#000",
      strokeStyle: "#000",
      lineWidth: 1,
      globalAlpha: 1,
      font: "10px sans-serif",
      textAlign: "left",
      textBaseline: "alphabetic",
      path: "",
    });
  }

  draw(tag, props) {
    this.group.append(s(tag, { ...props, opacity: this.globalAlpha < 1 ? this.globalAlpha : null }));
  }

  fillRect(x, y, width, height) {
    this.draw("rect", { x, y, width: Math.max(0, width), height: Math.max(0, height), fill: this.fillStyle });
  }

  strokeRect(x, y, width, height) {
    this.draw("rect", {
      x,
      y,
      width: Math.max(0, width),
      height: Math.max(0, height),
      fill: "none",
      stroke: this.strokeStyle,
      "stroke-width": this.lineWidth,
    });
  }

  beginPath() {
    this.path = "";
    this.round = null;
  }

  moveTo(x, y) {
    this.path += `M${x} ${y}`;
  }

  lineTo(x, y) {
    this.path += `L${x} ${y}`;
  }

  roundRect(x, y, width, height, rx) {
    this.round = { x, y, width, height, rx };
  }

  stroke() {
    const look = { fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth };
    if (this.round) this.draw("rect", { ...this.round, ...look });
    else this.draw("path", { d: this.path, ...look });
  }

  fillText(text, x, y) {
    const [, weight, size, family] = /^(?:(\S+) )?([\d.]+)px (.+)$/.exec(this.font);
    const baseline = this.textBaseline === "middle" ? y + Number(size) * 0.36 : y;
    this.group.append(
      s(
        "text",
        {
          x,
          y: baseline,
          fill: this.fillStyle,
          "font-size": size,
          "font-family": family,
          "font-weight": weight || null,
          "text-anchor": ANCHOR[this.textAlign],
          opacity: this.globalAlpha < 1 ? this.globalAlpha : null,
        },
        text,
      ),
    );
  }

  measureText(text) {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }
}
