// The calculator of the Decide stage: speed over plain decoding by draft length, redrawn as a slider moves. The formula
// is that of engine/draftscope/advise/calculator.py.

const MOST_GAMMA = 8;
const WIDE = 340;
const HIGH = 190;
const EDGE = { left: 20, right: 58, top: 22, bottom: 38 };
const SVG = "http://www.w3.org/2000/svg";

/** Every draft length: {gamma, tau, cost, ratio}, costs and speeds over plain decoding's. */
export function curve(terms, requests, length) {
  const plain = rowsCost(terms, requests);
  return Array.from({ length: MOST_GAMMA + 1 }, (_, gamma) => {
    let tau = 1;
    for (let place = 0, kept = 1; place < gamma; place++) {
      kept *= terms.acceptance[Math.min(place, terms.acceptance.length - 1)];
      tau += kept;
    }
    const drafts = gamma > 0 ? 1 : 0;
    const cost = (gamma * terms.c + rowsCost(terms, requests * (gamma + 1)) + terms.o * drafts) / plain;
    const before = (requests * terms.before * drafts) / (length * plain);
    return { gamma, tau, cost, ratio: 1 / (cost / tau + before) };
  });
}

function rowsCost(terms, count) {
  const { rows, v } = terms;
  const above = rows.findIndex((each) => each >= count);
  if (above < 0) return (v.at(-1) * count) / rows.at(-1);
  if (above === 0) return v[0];
  const share = (count - rows[above - 1]) / (rows[above] - rows[above - 1]);
  return v[above - 1] + share * (v[above] - v[above - 1]);
}

/** The fastest point; plain decoding where nothing is faster. */
export const best = (points) => points.reduce((top, each) => (each.ratio > top.ratio ? each : top));

/**
 * The terms as the sliders say: `acceptance` is the first position's, whose change moves all the others as far towards 0
 * or 1; `draft` is c, and `rows` how many times as much each further row costs.
 */
export function changed(terms, acceptance, draft, rows) {
  const first = terms.acceptance[0];
  const moved = (each) =>
    acceptance >= first
      ? 1 - ((1 - each) * (1 - acceptance)) / Math.max(1 - first, 1e-9)
      : (each * acceptance) / Math.max(first, 1e-9);
  const v = terms.v.map((each) => terms.v[0] + (each - terms.v[0]) * rows);
  return { ...terms, acceptance: terms.acceptance.map(moved), c: draft, v };
}

/** The sentence above the curve. */
export function headline(points) {
  const top = best(points);
  if (top.gamma > 0)
    return `Turn it on: about ${top.ratio.toFixed(2)} times plain decoding, ${tokens(top.gamma)} a round`;
  const next = best(points.slice(1));
  return `Leave it off: at best about ${next.ratio.toFixed(2)} times plain decoding, with ${tokens(next.gamma)} a round`;
}

const tokens = (count) => `${count} ${count === 1 ? "token" : "tokens"}`;

/** Fills the calculator's card, whose data-terms holds the terms as JSON, and redraws it at each move of a slider. */
export function start(card) {
  const terms = JSON.parse(card.dataset.terms);
  const sliders = Object.fromEntries(Array.from(card.querySelectorAll("input"), (each) => [each.name, each]));
  const value = (name) => Number(sliders[name].value);
  const redraw = () => {
    for (const each of Object.values(sliders)) each.parentElement.querySelector("output").textContent = each.value;
    const now = changed(terms, value("acceptance"), value("draft"), value("rows"));
    const points = curve(now, value("requests"), value("length"));
    card.querySelector(".ds-calculator-headline").textContent = headline(points);
    draw(card.querySelector("svg"), points);
  };
  for (const each of Object.values(sliders)) each.addEventListener("input", redraw);
  redraw();
}

function draw(svg, points) {
  const ratios = points.map((each) => each.ratio);
  const [least, most] = [Math.min(0.8, ...ratios), Math.max(1.2, ...ratios)];
  const x = (gamma) => EDGE.left + (gamma / MOST_GAMMA) * (WIDE - EDGE.left - EDGE.right);
  const y = (ratio) => HIGH - EDGE.bottom - ((ratio - least) / (most - least)) * (HIGH - EDGE.top - EDGE.bottom);
  const top = best(points);
  const line = (x1, y1, x2, y2, kind) => mark("line", { x1, y1, x2, y2, class: kind });
  const words = (text, at, down, kind = "") => mark("text", { x: at, y: down, class: kind }, text);
  svg.setAttribute("viewBox", `0 0 ${WIDE} ${HIGH}`);
  svg.setAttribute("aria-label", headline(points));
  svg.replaceChildren(
    line(x(0), y(1), x(MOST_GAMMA), y(1), "one"),
    words("1, plain", x(MOST_GAMMA) + 8, y(1) + 4, "side"),
    mark("polyline", { points: points.map((each) => `${x(each.gamma)},${y(each.ratio)}`).join(" "), class: "speed" }),
    ...points.map((each) => mark("circle", { cx: x(each.gamma), cy: y(each.ratio), r: each === top ? 7 : 3 })),
    words(top.ratio.toFixed(2), x(top.gamma), y(top.ratio) - 10, "best"),
    ...points.map((each) => words(String(each.gamma), x(each.gamma), HIGH - EDGE.bottom + 18)),
    words("drafted tokens a round", x(MOST_GAMMA / 2), HIGH - 4),
  );
}

function mark(name, attributes, text = "") {
  const found = document.createElementNS(SVG, name);
  for (const [key, each] of Object.entries(attributes)) found.setAttribute(key, each);
  found.textContent = text;
  return found;
}
