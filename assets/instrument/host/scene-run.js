// In a scene: the prompt, the drafter, Run and Step, so that nobody has to leave it for the next run. They are the
// page's own controls, set and pressed from here.

import { h } from "../base/dom.js";
import { askHost, hostCan } from "../base/host.js";
import { choice, smallButton } from "../base/templates.js";
import { drafterTitle } from "../run/titles.js";
import { html, render } from "../vendor/lit-html.js";
import { drafterChosen, draftersAble } from "./page.js";

const SET_MS = 250; // until the page's controls hold what was set here

export class SceneRun {
  constructor() {
    this.root = h("div.controls.scene-run", { hidden: true });
    this.changed = 0;
  }

  /** In a scene whose page has controls, with what they hold. */
  show(inScene) {
    const pagePrompt = document.querySelector("#ds-prompt textarea");
    this.root.hidden = !inScene || !pagePrompt || !hostCan("set");
    if (this.root.hidden) return;
    const names = draftersAble();
    const now = drafterChosen();
    this.draw(pagePrompt.value, names.includes(now) ? names : [now, ...names], now);
  }

  draw(prompt, drafters, chosen) {
    const options = drafters.map((name) => [name, drafterTitle(name)]);
    const write = ({ target }) => this.set({ prompt: target.value });
    const view = html`
      <textarea rows="1" aria-label="Prompt" .value=${prompt} @change=${write}></textarea>
      ${choice("Drafter", options, chosen, (drafter) => this.set({ drafter }))}
      <button class="small leading" type="button" @click=${() => this.press("#ds-run")}>Run</button>
      ${smallButton("Step", () => this.press("#ds-step"))}
    `;
    render(view, this.root);
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
