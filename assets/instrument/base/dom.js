// Elements made by hand. Whatever a model wrote reaches the page through `text` (textContent) alone: no file of this
// folder sets innerHTML from data, and none builds markup from strings.

/** An HTML element. `props`: class, text, title, on (listeners), style (object), anything else is an attribute. */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function s(tag, props, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
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

/** A sentence beside a picture or a table. */
export const remark = (text) => h("p", { class: "sum", text });

/** The head of a card: what stands in it from left to right, after title and words. */
export const cardHead = (title, words, ...rest) =>
  h("header", { class: "card-head" }, h("div", { class: "head-text" }, title, words), ...rest);

/** Sets text only where it changed, so that screen readers and selections are left alone. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Visual pixels for one of an element's own. */
export const zoomOf = (element) => element.currentCSSZoom || 1;
