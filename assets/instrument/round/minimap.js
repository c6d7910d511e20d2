// The whole tree, small, while only a part of it is in view: the frame is that part, and can be dragged.

import { s } from "../base/dom.js";

const WIDE = 150;
const TALL = 96;

export class MiniMap {
  /** `pane` is what scrolls. */
  constructor(pane) {
    this.pane = pane;
    this.frame = s("rect.frame");
    this.root = s("svg.minimap", {
      "aria-hidden": "true",
      on: {
        pointerdown: (event) => {
          this.root.setPointerCapture(event.pointerId);
          this.to(event);
        },
        pointermove: (event) => event.buttons && this.to(event),
      },
    });
    pane.addEventListener("scroll", () => this.follow());
  }

  /** `drawn`: {total, height, boxes, tall} of the whole picture, or null where all of it is in view. */
  paint(drawn) {
    const { pane } = this;
    const whole = pane.scrollWidth <= pane.clientWidth + 2 && pane.scrollHeight <= pane.clientHeight + 2;
    this.drawn = whole ? null : drawn;
    this.root.toggleAttribute("hidden", !this.drawn);
    if (!this.drawn) return;
    const { total, height, boxes, tall } = drawn;
    const scale = Math.min(WIDE / total, TALL / height);
    for (const [name, value] of Object.entries({
      width: total * scale,
      height: height * scale,
      viewBox: `0 0 ${total} ${height}`,
    }))
      this.root.setAttribute(name, value);
    const dot = ({ fate, x, y, w }) => s("rect", { class: fate, x, y, width: w, height: tall });
    this.root.replaceChildren(...boxes.map(dot), this.frame);
    this.follow();
  }

  follow() {
    if (!this.drawn) return;
    const { pane, drawn } = this;
    const [across, down] = [drawn.total / pane.scrollWidth, drawn.height / pane.scrollHeight];
    this.frame.setAttribute("x", pane.scrollLeft * across);
    this.frame.setAttribute("y", pane.scrollTop * down);
    this.frame.setAttribute("width", pane.clientWidth * across);
    this.frame.setAttribute("height", pane.clientHeight * down);
  }

  /** What is pressed comes into the middle. */
  to(event) {
    const box = this.root.getBoundingClientRect();
    const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    const { pane } = this;
    pane.scrollTo(x * pane.scrollWidth - pane.clientWidth / 2, y * pane.scrollHeight - pane.clientHeight / 2);
  }
}
