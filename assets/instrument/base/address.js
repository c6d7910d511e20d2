// The address: which of its words belong to the page's look rather than to a run's settings, and how they change.

export const KEPT_IN_ADDRESS = ["__theme", "scene", "lesson", "teach"]; // stay in the address when the settings in it change

export const fromAddress = (name) => new URLSearchParams(location.search).get(name);

/** One word of the address; null takes it away. Where a page may not write its address, nothing happens. */
export function setInAddress(name, value) {
  const query = new URLSearchParams(location.search);
  if (value === null) query.delete(name);
  else query.set(name, String(value));
  const text = query.toString();
  writeAddress(text ? `?${text}` : "");
}

/** Writes the whole query; a Space's outer page gets a message, because it does not see its frame's address. */
export function writeAddress(query) {
  try {
    history.replaceState(null, "", location.pathname + query + location.hash);
  } catch {
    return; // a frame without an origin of its own, as in a notebook
  }
  if (embedded()) window.parent.postMessage({ queryString: query.slice(1) }, "*");
}

export const embedded = () => window.parent !== window;
