// A canvas as sharp as the screen, or the pen that writes it down; and text in lines.

import { zoomOf } from "../base/dom.js";

/** A canvas of so many CSS pixels, sharp on any screen: its cleared context. */
export function sized(canvas, width, height) {
  if (canvas.pen) return canvas.pen; // it is being written down as a picture
  const scale = (window.devicePixelRatio || 1) * zoomOf(canvas);
  const w = Math.round(width * scale);
  const t = Math.round(height * scale);
  if (canvas.width !== w || canvas.height !== t) {
    canvas.width = w;
    canvas.height = t;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const ctx = canvas.getContext("2d");
  ctx.setTransform(scale, 0, 0, scale, 0, 0);
  ctx.clearRect(0, 0, width, height);
  return ctx;
}

/** The words of a text in lines that are at most so wide in the context's font, and at most so many. */
export function wrapped(ctx, text, width, most = Infinity) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (lines.length < most && lines.at(-1) && ctx.measureText(longer).width > width) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}
