// The first picture, HTML that was painted before any script ran, lies over the page until the instrument has painted its own.

let there = true;

/** Called after every paint of a run. */
export function leaveFront() {
  if (!there) return;
  there = false;
  requestAnimationFrame(() => document.querySelector("#ds-front")?.remove());
}
