// The tab's own token, by which the server finds the tab's run again after a reload.
//
// It lies in the tab's storage only from the moment a page is left until the next one opens: the copy of a tab would
// otherwise have the token of the tab that it was copied from.

import { claimTab, leavePage, resumeRun } from "../base/host.js";

const KEY = "draftscope-tab";
let token = "";
let reloaded = false;

/** Called once, when the page opens: takes the token that the page before has left, or makes one. */
export function openTab() {
  token = taken();
  reloaded = token !== "";
  token ||= fresh();
  addEventListener("pagehide", () => leave());
  addEventListener("pageshow", () => taken());
}

/** Asks for the run of this tab; answered by the run so far, and what follows. A tab that has just been opened has none. */
export const findRun = () => (reloaded ? resumeRun(token) : claimTab(token));

const fresh = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");

function leave() {
  leavePage(token);
  try {
    sessionStorage.setItem(KEY, token);
  } catch {
    // closed: a reloaded page begins anew
  }
}

function taken() {
  try {
    const left = sessionStorage.getItem(KEY) || "";
    sessionStorage.removeItem(KEY);
    return /^[0-9a-f]{32}$/.test(left) ? left : "";
  } catch {
    return "";
  }
}
