// The address: which of its words belong to the page's look rather than to a run's settings, and how they change.

import { given } from "./given.js";

const PLACE = ["round", "node", "stage"]; // what is looked at in the run that is shown

/** The words that stay when settings change; a card may have a place of its own. */
export const keptInAddress = () => [
  "__theme",
  "door",
  "scene",
  "teach",
  ...given.cards.map(({ place }) => place).filter(Boolean),
  ...PLACE,
];

export const fromAddress = (name) => new URLSearchParams(location.search).get(name);

/** The address says what to run. */
export const namesRun = () =>
  ["prompt", "drafter", ...Object.keys(given.labels)].some((name) => fromAddress(name) !== null);

/** Some words of the address; null takes one away. `push` makes a step that the back button undoes. */
export const setInAddress = (words, push = false) => writeAddress(queryWith(words), push);

/** The query, some of whose words are others. */
export function queryWith(words) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(words)) {
    if (value === null) query.delete(name);
    else query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `?${text}` : "";
}

/** Without the place in a run: another one is shown. */
export const leavePlace = () => setInAddress(Object.fromEntries(PLACE.map((name) => [name, null])));

/** Writes the whole query, where a page may; a Space's outer page gets a message, because it does not see its frame's
 *  address. */
export function writeAddress(query, push = false) {
  if (query === location.search) return;
  try {
    history[push ? "pushState" : "replaceState"](null, "", location.pathname + query + location.hash);
  } catch {
    return; // a frame without an origin of its own, as in a notebook
  }
  if (embedded()) window.parent.postMessage({ queryString: query.slice(1) }, "*");
}

export const embedded = () => window.parent !== window;
