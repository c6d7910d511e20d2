// Elements made by hand. Whatever a model wrote reaches the page as text nodes alone: no file of this folder sets
// innerHTML from data, and none builds markup from strings.

/** An HTML element: `selector` is its tag and classes, as "div.card.tree". Behind it come its props, if it has any, and
 *  its children. Props: class, text, title, on (listeners), style (object), anything else is an attribute. */
export const h = (selector, ...parts) => filled(selector, parts, (tag) => document.createElement(tag));

/** The same for SVG. */
export const s = (selector, ...parts) => filled(selector, parts, (tag) => document.createElementNS(SVG, tag));

const SVG = "http://www.w3.org/2000/svg";
const isProps = (part) => Boolean(part) && Object.getPrototypeOf(part) === Object.prototype;

function filled(selector, parts, create) {
  const [tag, ...classes] = selector.split(".");
  const element = create(tag);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  return isProps(parts[0]) ? fill(element, parts[0], parts.slice(1)) : fill(element, {}, parts);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name === "on")
      for (const [type, listener] of Object.entries(value)) element.addEventListener(type, listener);
    else if (name === "style") for (const [key, v] of Object.entries(value)) element.style.setProperty(key, v);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat())
    if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
}

/** A small button. */
export const button = (text, act, props) =>
  h("button", { class: "small", type: "button", text, ...props, on: { click: act } });

/** Sets text only where it changed, so that screen readers and selections are left alone. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Visual pixels for one of an element's own. */
export const zoomOf = (element) => element.currentCSSZoom || 1;
