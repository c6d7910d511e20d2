// What was measured at length and is shown until it is measured again: kept in the browser, read back with care.

const name = (kind) => `draftscope-${kind}`;

export function keep(kind, value) {
  try {
    localStorage.setItem(name(kind), JSON.stringify(value));
  } catch {
    // full or closed: it is then shown as long as the page is open
  }
}

/** What was kept, if it `fits`; anything else there is passed over. */
export function recall(kind, fits) {
  try {
    const value = JSON.parse(localStorage.getItem(name(kind)));
    return value && fits(value) ? value : null;
  } catch {
    return null;
  }
}
