// Tokens and numbers as text.

// Tokens. In a trace a token is bytes, one per character (latin-1): it need not be valid UTF-8 by itself.

export const rawBytes = (raw) => Uint8Array.from(raw, (c) => c.charCodeAt(0) & 255);

/**
 * A token made visible: space as a middle dot, newline and tab as arrows, bytes and unprintable characters spelt out.
 */
export function visible(raw) {
  if (raw === "") return "∅";
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(rawBytes(raw));
  } catch {
    return (
      "‹" + Array.from(raw, (c) => (c.charCodeAt(0) & 255).toString(16).toUpperCase().padStart(2, "0")).join(" ") + "›"
    );
  }
  return Array.from(text, visibleCharacter).join("");
}

function visibleCharacter(c) {
  if (c === " ") return "·";
  if (c === "\n") return "⏎";
  if (c === "\t") return "⇥";
  if (/[\p{C}\p{Z}]/u.test(c)) return "‹U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "›";
  return c;
}

export function shorten(text, most) {
  const characters = Array.from(text);
  return characters.length <= most ? text : characters.slice(0, most - 1).join("") + "…";
}

// Numbers.

/** A probability: .81, .004, <.001; exactly 0 and 1 are written as such. */
export function formatProb(x) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  if (x === 0) return "0";
  if (x < 0.001) return "<.001";
  if (x > 0.9995) return x >= 1 - 1e-12 ? "1" : ">.999";
  const digits = x < 0.0995 ? 3 : 2;
  return x.toFixed(x > 0.995 ? 3 : digits).replace(/^0/, "");
}

/** A ratio of probabilities: .30, 1.00, 12.4. */
export const formatRatio = (x) => (x < 0.995 ? formatProb(x) : Number.isFinite(x) ? formatFigure(x) : "∞");

export const formatFixed = (x, digits) => (Number.isFinite(x) ? x.toFixed(digits) : "–");

/** Three significant digits at most: 215, 97.4, 3.12. */
export function formatFigure(x) {
  if (!Number.isFinite(x)) return "–";
  return x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2);
}

/** A cost in plain rounds: mostly a small part of one, sometimes several. */
export const formatCost = (x) => (x > 0.9995 ? formatFigure(x) : formatProb(x));

/** Milliseconds, in the unit that reads best. */
export function formatMs(ms) {
  if (!Number.isFinite(ms)) return "–";
  if (ms === 0) return "0 ms";
  if (ms >= 1000) return (ms / 1000).toFixed(ms >= 10000 ? 1 : 2) + " s";
  return formatFigure(ms) + " ms";
}

export const counted = (n, one, many) => `${n} ${n === 1 ? one : many || one + "s"}`;

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** An estimate in words, no finer than it is; empty without one. The same as `time_left` of base/progress.py. */
export function timeLeft(seconds) {
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 5) return "a few seconds left";
  const step = seconds < 30 ? 5 : 10;
  if (seconds < 90) return `about ${step * Math.round(seconds / step)} s left`;
  return `about ${Math.round(seconds / 60)} min left`;
}
