// Which settings the page shows.

/**
 * Whether a drafter that `reads` these options reads that one while they have these `values`. `visibleIf`: option ->
 * [another, values of that one]. The server sends only what is read by the same rule: `is_read` of page/controls.py.
 */
export function isRead(name, reads, values, visibleIf) {
  const [other, wanted] = visibleIf[name] || [];
  return reads.includes(name) && (!other || (reads.includes(other) && wanted.includes(values[other])));
}
