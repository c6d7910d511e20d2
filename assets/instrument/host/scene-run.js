// In a scene: the prompt, the drafter, Run and Step, so that nobody has to leave it for the next run. They are the
// page's own controls, set and pressed from here.

import { button, h } from "../base/dom.js";
import { askHost, hostCan } from "../base/host.js";
import { drafterTitle } from "../run/titles.js";
import { drafterChosen, draftersAble } from "./page.js";

const SET_MS = 250; // until the page's controls hold what was set here

export class SceneRun {
  constructor() {
    this.prompt = h("textarea", {
      rows: "1",
      "aria-label": "Prompt",
      on: { change: () => this.set({ prompt: this.prompt.value }) },
    });
    this.drafter = h("select", {
      "aria-label": "Drafter",
      on: { change: () => this.set({ drafter: this.drafter.value }) },
    });
    const run = button("Run", () => this.press("#ds-run"), { class: "small leading" });
    const step = button("Step", () => this.press("#ds-step"));
    this.root = h("div.controls.scene-run", { hidden: true }, this.prompt, this.drafter, run, step);
    this.changed = 0;
  }

  /** In a scene whose page has controls, with what they hold. */
  show(inScene) {
    const pagePrompt = document.querySelector("#ds-prompt textarea");
    this.root.hidden = !inScene || !pagePrompt || !hostCan("set");
    if (this.root.hidden) return;
    this.prompt.value = pagePrompt.value;
    const names = draftersAble();
    const now = drafterChosen();
    const all = names.includes(now) ? names : [now, ...names];
    this.drafter.replaceChildren(...all.map((name) => h("option", { value: name }, drafterTitle(name))));
    this.drafter.value = now;
  }

  set(values) {
    this.changed = performance.now();
    askHost("set", values);
  }

  press(name) {
    const wait = Math.max(0, this.changed + SET_MS - performance.now());
    setTimeout(() => document.querySelector(name).click(), wait);
  }
}
