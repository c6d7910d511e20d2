// Any card as a picture of its own: SVG, or PNG made from it.
//
// The card is read as it is shown, element by element: boxes, rules, hatches and lines of text become SVG with colours
// resolved and fonts named, so that the file needs neither this page nor a network. What is pressed or moved stays out.

import { h, s } from "../base/dom.js";
import { say } from "../base/host.js";
import { drawn, smallButton } from "../base/templates.js";
import { html } from "../vendor/lit-html.js";
import { wrapped } from "./canvas.js";
import { Pen } from "./pen.js";

const MARGIN = 18;
const SCALE = 2; // pixels of a PNG for one of the page

/** Puts the button that saves this card into its head. `words()` says where the numbers come from. */
export function addSaveMenu(root, name, words) {
  const kind = (format, save) =>
    smallButton(format, ({ target }) => {
      target.closest("details").open = false;
      save(pictureOf(root, words()), `draftscope-${name.replaceAll(" ", "-")}`);
    });
  const left = ({ currentTarget: menu, relatedTarget }) => {
    if (!menu.contains(relatedTarget)) menu.open = false;
  };
  const menu = html`<details class="save" @focusout=${left}>
    <summary aria-label="Save this picture: ${name}" title="Save this picture">⤓</summary>
    <div>${kind("SVG", saveSvg)}${kind("PNG", savePng)}</div>
  </details>`;
  const places = [".card-foot", ".card-head .controls", ".card-head"];
  places
    .map((place) => root.querySelector(place))
    .find(Boolean)
    .append(drawn(menu));
}

/** The card as an <svg> element; with `words` beneath. */
function pictureOf(card, words) {
  const style = getComputedStyle(card);
  const panes = Array.from(card.querySelectorAll("*"), (pane) => [pane, pane.scrollLeft, pane.scrollTop]);
  card.classList.add("whole"); // for a moment nothing scrolls, and what is pressed or moved is gone
  const at = card.getBoundingClientRect();
  const sheet = new Sheet(at.left, at.top, at.width / card.offsetWidth);
  try {
    for (const child of card.children) sheet.element(child);
  } finally {
    card.classList.remove("whole");
    for (const [pane, left, top] of panes) if (left || top) pane.scrollTo(left, top);
  }
  const [x, y] = [sheet.west - MARGIN, sheet.north - MARGIN];
  const width = Math.ceil(sheet.east + MARGIN - x);
  ruler.font = `11px ${style.fontFamily}`;
  const foot = wrapped(ruler, words, width - 2 * MARGIN);
  const height = Math.ceil(sheet.south + MARGIN + 16 * foot.length - y);
  const property = (name) => style.getPropertyValue(name).trim();
  return s(
    "svg",
    {
      xmlns: "http://www.w3.org/2000/svg",
      "xml:space": "preserve",
      viewBox: `${x} ${y} ${width} ${height}`,
      width,
      height,
    },
    s("title", card.querySelector("h3, h4").textContent),
    s("rect", { x, y, width, height, fill: property("--card") }),
    sheet.group,
    foot.map((text, i) =>
      s(
        "text",
        {
          x: x + MARGIN,
          y: sheet.south + MARGIN + 2 + 16 * i,
          "font-size": 11,
          "font-family": style.fontFamily,
          fill: property("--muted"),
        },
        text,
      ),
    ),
  );
}

class Sheet {
  /** `left` and `top` are the card's corner in the window, `zoom` what the page is enlarged by. */
  constructor(left, top, zoom) {
    Object.assign(this, {
      left,
      top,
      zoom,
      west: Infinity,
      north: Infinity,
      east: 0,
      south: 0,
      ids: 0,
      group: s("g"),
    });
  }

  place(box) {
    const [x, y, width, height] = [
      (box.left - this.left) / this.zoom,
      (box.top - this.top) / this.zoom,
      box.width / this.zoom,
      box.height / this.zoom,
    ];
    if (width && height) {
      [this.west, this.north] = [Math.min(this.west, x), Math.min(this.north, y)];
      [this.east, this.south] = [Math.max(this.east, x + width), Math.max(this.south, y + height)];
    }
    return { x: round(x), y: round(y), width: round(width), height: round(height) };
  }

  element(element) {
    const style = getComputedStyle(element);
    if (style.display === "none" || style.visibility === "hidden") return;
    const outer = this.group;
    if (Number(style.opacity) < 1) outer.append((this.group = s("g", { opacity: style.opacity })));
    if (element instanceof SVGSVGElement) this.svg(element);
    else if (element instanceof HTMLCanvasElement) this.canvas(element);
    else {
      this.box(element, style);
      if (style.overflowX === "hidden" && element.scrollWidth > element.clientWidth) this.clip(element);
      for (const child of element.childNodes) {
        if (child.nodeType === Node.ELEMENT_NODE) this.element(child);
        else if (child.nodeType === Node.TEXT_NODE && child.data.trim()) this.text(child, style);
      }
    }
    this.group = outer;
  }

  box(element, style) {
    const { x, y, width, height } = this.place(element.getBoundingClientRect());
    if (!width || !height) return;
    const rx = Math.min(parseFloat(style.borderTopLeftRadius) || 0, height / 2) || null;
    const around = /^(\S+\(.*?\)) 0px 0px 0px ([\d.]+)px( inset)?$/.exec(style.boxShadow);
    const spread = around ? Number(around[2]) : 0;
    if (around && !around[3])
      this.group.append(
        s("rect", {
          x: x - spread,
          y: y - spread,
          width: width + 2 * spread,
          height: height + 2 * spread,
          fill: colour(around[1]),
        }),
      );
    if (visible(style.backgroundColor))
      this.group.append(s("rect", { x, y, width, height, rx, fill: colour(style.backgroundColor) }));
    if (style.backgroundImage.startsWith("repeating-linear-gradient"))
      this.group.append(s("rect", { x, y, width, height, fill: this.hatch(style.backgroundImage) }));
    if (around && around[3])
      this.group.append(
        s("rect", {
          x: x + spread / 2,
          y: y + spread / 2,
          width: Math.max(0, width - spread),
          height: Math.max(0, height - spread),
          fill: "none",
          stroke: colour(around[1]),
          "stroke-width": spread,
        }),
      );
    this.borders(style, { x, y, width, height, rx });
  }

  borders(style, { x, y, width, height, rx }) {
    const sides = ["Top", "Right", "Bottom", "Left"]
      .map((side) => ({
        side,
        w: parseFloat(style[`border${side}Width`]),
        kind: style[`border${side}Style`],
        ink: style[`border${side}Color`],
      }))
      .filter(({ w, kind, ink }) => w > 0 && kind !== "none" && visible(ink));
    const look = ({ w, kind, ink }) => ({
      fill: "none",
      stroke: colour(ink),
      "stroke-width": w,
      "stroke-dasharray": kind === "dashed" ? `${3 * w} ${2 * w}` : null,
    });
    if (sides.length === 4)
      return this.group.append(
        s("rect", {
          x: x + sides[0].w / 2,
          y: y + sides[0].w / 2,
          width: width - sides[0].w,
          height: height - sides[0].w,
          rx,
          ...look(sides[0]),
        }),
      );
    for (const at of sides) {
      const d = {
        Top: `M${x} ${y + at.w / 2}h${width}`,
        Bottom: `M${x} ${y + height - at.w / 2}h${width}`,
        Left: `M${x + at.w / 2} ${y}v${height}`,
        Right: `M${x + width - at.w / 2} ${y}v${height}`,
      }[at.side];
      this.group.append(s("path", { d, ...look(at) }));
    }
    return undefined;
  }

  /** Repeating stripes, as the decision's excesses have them. */
  hatch(image) {
    const [, angle, ink, w, period] =
      /repeating-linear-gradient\((-?[\d.]+)deg, (.*?\)) 0px, .*?\) ([\d.]+)px, .*? ([\d.]+)px\)$/.exec(image);
    const id = `hatch-${this.ids++}`;
    this.group.append(
      s(
        "pattern",
        {
          id,
          width: period,
          height: period,
          patternUnits: "userSpaceOnUse",
          patternTransform: `rotate(${Number(angle) - 90})`,
        },
        s("rect", { width: w, height: period, fill: colour(ink) }),
      ),
    );
    return `url(#${id})`;
  }

  clip(element) {
    const id = `clip-${this.ids++}`;
    this.group.append(s("clipPath", { id }, s("rect", this.place(element.getBoundingClientRect()))));
    this.group.append((this.group = s("g", { "clip-path": `url(#${id})` })));
  }

  /** A text node, line by line, each where the page has put it. */
  text(node, style) {
    const range = document.createRange();
    const boxOf = (from, to) => {
      range.setStart(node, from);
      range.setEnd(node, to);
      return range.getBoundingClientRect();
    };
    let from = 0;
    for (let to = 1; to <= node.length; to++) {
      if (to < node.length && Math.abs(boxOf(to, to + 1).bottom - boxOf(from, from + 1).bottom) < 4) continue;
      const words = node.data.slice(from, to);
      const ends = to - (words.length - words.trimEnd().length);
      if (ends > from) this.line(words.trim(), boxOf(from + (words.length - words.trimStart().length), ends), style);
      from = to;
    }
  }

  line(text, box, style) {
    const at = this.place(box);
    if (!at.width) return;
    this.group.append(
      s(
        "text",
        {
          x: at.x,
          y: round(at.y + at.height * ascent(style)),
          fill: colour(style.color),
          "font-size": parseFloat(style.fontSize),
          "font-family": style.fontFamily,
          "font-weight": style.fontWeight === "400" ? null : style.fontWeight,
          textLength: at.width,
          lengthAdjust: "spacingAndGlyphs",
          style: { "white-space": "pre" },
        },
        text,
      ),
    );
  }

  canvas(canvas) {
    const { x, y } = this.place(canvas.getBoundingClientRect());
    canvas.pen = new Pen();
    canvas.redraw();
    canvas.pen.group.setAttribute("transform", `translate(${x} ${y})`);
    this.group.append(canvas.pen.group);
    canvas.pen = null;
  }

  svg(picture) {
    const { x, y, width, height } = this.place(picture.getBoundingClientRect());
    const copy = s("svg", { x, y, width, height, viewBox: picture.getAttribute("viewBox") });
    for (const child of picture.children) copy.append(resolved(child));
    this.group.append(copy);
  }
}

const SHAPE = ["d", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "rx", "width", "height", "points", "transform"];
const LOOK = {
  stroke: "none",
  "stroke-width": "1px",
  "stroke-dasharray": "none",
  opacity: "1",
  "paint-order": "normal",
  "font-family": "",
  "font-size": "",
  "font-weight": "400",
  "text-anchor": "start",
};
const SAID = ["font-family", "font-size", "font-weight", "text-anchor", "paint-order"]; // of text alone

/** A copy of drawn SVG with its look written into it. */
function resolved(element) {
  const copy = s(element.tagName, {});
  if (element.tagName === "title") copy.textContent = element.textContent;
  for (const name of SHAPE) if (element.hasAttribute(name)) copy.setAttribute(name, element.getAttribute(name));
  const style = getComputedStyle(element);
  const text = element.tagName === "text";
  if (!["g", "title"].includes(element.tagName)) {
    copy.setAttribute("fill", colour(style.fill));
    for (const [name, usual] of Object.entries(LOOK)) {
      const value = style.getPropertyValue(name);
      if (value !== usual && (text || !SAID.includes(name)))
        copy.setAttribute(name, name === "stroke" ? colour(value) : value);
    }
  }
  if (text) copy.style.whiteSpace = "pre";
  for (const child of element.childNodes) {
    if (child.nodeType === Node.ELEMENT_NODE) copy.append(resolved(child));
    else if (text) copy.append(child.data);
  }
  return copy;
}

const round = (x) => Math.round(x * 100) / 100;

/** Any computed colour as rgb(): mixed ones come as color(srgb r g b / a). */
function colour(text) {
  const mixed = /^color\(srgb ([\d.e-]+) ([\d.e-]+) ([\d.e-]+)(?: \/ ([\d.]+))?\)$/.exec(text);
  if (!mixed) return text;
  const rgb = mixed.slice(1, 4).map((x) => Math.round(255 * Number(x)));
  return mixed[4] ? `rgba(${rgb.join(", ")}, ${mixed[4]})` : `rgb(${rgb.join(", ")})`;
}

const visible = (text) => text !== "transparent" && !/, 0\)$/.test(text);

const ruler = document.createElement("canvas").getContext("2d");

/** How much of a line of this font is above its baseline. */
function ascent(style) {
  ruler.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = ruler.measureText("x");
  return up / (up + down);
}

// Files.

const written = (svg) => new XMLSerializer().serializeToString(svg);

function saveSvg(svg, name) {
  saveFile(new Blob([written(svg)], { type: "image/svg+xml" }), `${name}.svg`);
}

function savePng(svg, name) {
  const image = new Image();
  image.onload = () => {
    const canvas = h("canvas", {
      width: SCALE * Number(svg.getAttribute("width")),
      height: SCALE * Number(svg.getAttribute("height")),
    });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => saveFile(blob, `${name}.png`), "image/png");
  };
  image.onerror = () => say("This browser cannot make the PNG; save as SVG instead.");
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(written(svg))}`;
}

/** A file is handed to the reader. */
export function saveFile(blob, name) {
  const anchor = h("a", { href: URL.createObjectURL(blob), download: name, hidden: true });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 60000);
}
