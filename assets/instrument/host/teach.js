// Teacher links: `?teach=1` beside the settings. The settings come with the link and cannot be moved; Run is left.

import { embedded, fromAddress, keptInAddress } from "../base/address.js";
import { h } from "../base/dom.js";
import { given } from "../base/given.js";
import { drafterTitle } from "../run/titles.js";

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

/** What the link has set, in the place of the controls; anew once the drafters' titles are known. */
export function showTaught() {
  const place = document.querySelector("#ds-controls");
  if (!teaching() || !place) return;
  place.querySelector(".ds-taught")?.remove();
  const kept = [...keptInAddress(), "prompt", "drafter"];
  const set = Array.from(new URLSearchParams(location.search)).filter(([name]) => !kept.includes(name));
  const prompt = fromAddress("prompt");
  const drafter = fromAddress("drafter");
  place.prepend(
    h(
      "div.ds-taught",
      prompt ? h("p", "Prompt: ", h("q", prompt)) : null,
      drafter ? h("p", `Drafter: ${drafterTitle(drafter)}`) : null,
      h("p", set.length ? set.map(settingWords).join(" · ") : "Default settings."),
      embedded() ? h("a", { href: location.href, target: "_blank", rel: "noopener" }, "Open full window") : null,
    ),
  );
}

/** A setting as the page names it. */
function settingWords([name, value]) {
  const { label, choices } = given.labels[name] || { label: name.replaceAll("_", " "), choices: {} };
  return `${label}: ${choices[value] || value}`;
}
