// A run that is a file of its own: unpacks the events that lie in the page and hands them to the instrument.

import { unpacked } from "../base/unpack.js";
import { receive, say } from "../base/host.js";
import { flipTheme } from "./page.js";

/** Called once by the file itself. The theme is the reader's own until its button is pressed. */
export async function playAlone() {
  if (window.matchMedia("(prefers-color-scheme: dark)").matches) document.body.classList.add("dark");
  document.getElementById("theme").addEventListener("click", flipTheme);
  const packed = document.getElementById("run").textContent;
  try {
    receive(await unpacked(packed));
  } catch (error) {
    console.error(error);
    say("This browser cannot unpack the run; use one from 2023 or later.");
  }
}
