// Teacher links: `?teach=1` beside the settings. The settings come with the link and cannot be moved; Run is left.

(function (D) {
  "use strict";
  const { h } = D;

  D.teaching = () => D.asked("teach") === "1";

  if (D.teaching()) document.documentElement.classList.add("ds-teach"); // page.css hides what the link has fixed

  /** The same address as a teacher's. */
  D.teacherQuery = function teacherQuery(query) {
    const parameters = new URLSearchParams(query);
    parameters.set("teach", "1");
    return `?${parameters}`;
  };

  /** What the link has set, in the place of the controls. */
  D.showTaught = function showTaught() {
    const place = document.querySelector("#ds-controls");
    if (!D.teaching() || !place || place.querySelector(".ds-taught")) return;
    const set = Array.from(new URLSearchParams(location.search)).filter(([name]) => !D.KEPT.includes(name) && name !== "prompt");
    const prompt = D.asked("prompt");
    place.prepend(h("div", { class: "ds-taught" },
      prompt ? h("p", {}, "Prompt: ", h("q", { text: prompt })) : null,
      h("p", { text: set.length ? set.map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`).join(" · ") : "The page's own settings." }),
      D.embedded() ? h("a", { href: location.href, target: "_blank", rel: "noopener", text: "Open full window" }) : null));
  };
})(window.Draftscope);
