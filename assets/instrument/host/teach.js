// Teacher links: `?teach=1` beside the settings. The settings come with the link and cannot be moved; Run is left.

import { KEPT_IN_ADDRESS, embedded, fromAddress } from "../base/address.js";
import { h } from "../base/dom.js";

export const teaching = () => fromAddress("teach") === "1";

/** page.css hides what the link has fixed. */
export function markTeaching() {
  if (teaching()) document.documentElement.classList.add("ds-teach");
}

/** The same address as a teacher's. */
export function teacherQuery(query) {
  const parameters = new URLSearchParams(query);
  parameters.set("teach", "1");
  return `?${parameters}`;
}

/** What the link has set, in the place of the controls. */
export function showTaught() {
  const place = document.querySelector("#ds-controls");
  if (!teaching() || !place || place.querySelector(".ds-taught")) return;
  const set = Array.from(new URLSearchParams(location.search)).filter(
    ([name]) => !KEPT_IN_ADDRESS.includes(name) && name !== "prompt",
  );
  const prompt = fromAddress("prompt");
  place.prepend(
    h(
      "div",
      { class: "ds-taught" },
      prompt ? h("p", {}, "Prompt: ", h("q", { text: prompt })) : null,
      h("p", {
        text: set.length
          ? set.map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`).join(" · ")
          : "Default settings.",
      }),
      embedded() ? h("a", { href: location.href, target: "_blank", rel: "noopener", text: "Open full window" }) : null,
    ),
  );
}
