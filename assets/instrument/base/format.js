// The namespace, and the few helpers that every other file of the instrument uses.
//
// Whatever a model wrote reaches the page through `text` (textContent) alone: no file of this folder sets innerHTML
// from data, and none builds markup from strings.

(function () {
  "use strict";
  const D = (window.Draftscope = window.Draftscope || {});

  /** An HTML element. `props`: class, text, title, on (listeners), style (object), anything else is an attribute. */
  D.h = function h(tag, props, ...children) {
    return fill(document.createElement(tag), props, children);
  };

  /** The same for SVG. */
  D.s = function s(tag, props, ...children) {
    return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
  };

  function fill(element, props, children) {
    for (const [name, value] of Object.entries(props || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (name === "text") element.textContent = value;
      else if (name === "on") for (const [type, listener] of Object.entries(value)) element.addEventListener(type, listener);
      else if (name === "style") for (const [key, v] of Object.entries(value)) element.style.setProperty(key, v);
      else element.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children.flat()) if (child !== null && child !== undefined) element.append(child);
    return element;
  }

  /** Sets text only where it changed, so that screen readers and selections are left alone. */
  D.setText = function setText(element, text) {
    if (element.textContent !== text) element.textContent = text;
  };

  // Tokens. In a trace a token is bytes, one per character (latin-1): it need not be valid UTF-8 by itself.

  D.bytes = (raw) => Uint8Array.from(raw, (c) => c.charCodeAt(0) & 255);

  /** A token made visible: space as a middle dot, newline and tab as arrows, bytes and unprintable characters spelt out. */
  D.visible = function visible(raw) {
    if (raw === "") return "∅";
    let text;
    try {
      text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(D.bytes(raw));
    } catch {
      return "‹" + Array.from(raw, (c) => (c.charCodeAt(0) & 255).toString(16).toUpperCase().padStart(2, "0")).join(" ") + "›";
    }
    return Array.from(text, visibleCharacter).join("");
  };

  function visibleCharacter(c) {
    if (c === " ") return "·";
    if (c === "\n") return "⏎";
    if (c === "\t") return "⇥";
    if (/[\p{C}\p{Z}]/u.test(c)) return "‹U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "›";
    return c;
  }

  D.shorten = function shorten(text, most) {
    const characters = Array.from(text);
    return characters.length <= most ? text : characters.slice(0, most - 1).join("") + "…";
  };

  // Numbers.

  /** A probability: .81, .004, <.001; exactly 0 and 1 are written as such. */
  D.prob = function prob(x) {
    if (x === null || x === undefined || Number.isNaN(x)) return "–";
    if (x === 0) return "0";
    if (x < 0.001) return "<.001";
    if (x > 0.9995) return x >= 1 - 1e-12 ? "1" : ">.999";
    const digits = x < 0.0995 ? 3 : 2;
    return x.toFixed(x > 0.995 ? 3 : digits).replace(/^0/, "");
  };

  D.fixed = (x, digits) => (Number.isFinite(x) ? x.toFixed(digits) : "–");

  /** Three significant digits at most: 215, 97.4, 3.12. */
  D.figure = function figure(x) {
    if (!Number.isFinite(x)) return "–";
    return x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2);
  };

  /** Milliseconds, in the unit that reads best. */
  D.time = function time(ms) {
    if (!Number.isFinite(ms)) return "–";
    if (ms === 0) return "0 ms";
    if (ms >= 1000) return (ms / 1000).toFixed(ms >= 10000 ? 1 : 2) + " s";
    return D.figure(ms) + " ms";
  };

  D.count = (n, one, many) => `${n} ${n === 1 ? one : many || one + "s"}`;

  D.median = function median(values) {
    const sorted = [...values].sort((a, b) => a - b);
    const middle = sorted.length >> 1;
    return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  };

  // The language of fates: shape first, glyph second, colour third.

  D.FATES = {
    accepted: { glyph: "✓", word: "accepted" },
    rejected: { glyph: "✗", word: "rejected" },
    correction: { glyph: "↻", word: "correction" },
    bonus: { glyph: "+", word: "bonus" },
    plain: { glyph: "", word: "the target's own" },
    drafted: { glyph: "", word: "not yet judged" },
    unvisited: { glyph: "·", word: "never judged" },
    never_accepted: { glyph: "·", word: "scout" },
  };
})();
