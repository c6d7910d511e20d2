// In a scene: the prompt, the drafter, Run and Step, so that nobody has to leave it for the next run. They are the
// page's own controls, set and pressed from here.

import { h } from "../base/dom.js";
import { askHost, hostCan, say } from "../base/host.js";
import { choice, smallButton } from "../base/templates.js";
import { drafterTitle } from "../run/titles.js";
import { html, render } from "../vendor/lit-html.js";
import { drafterChosen, draftersAble } from "./page.js";

const AGAIN_MS = 100; // until it is looked again whether the page's controls hold what was set here
const PATIENCE_MS = 10000; // after which they never will, as where the server is gone
const NOT_SET =
  `The page has not taken over what was set here within ${PATIENCE_MS / 1000} s, so nothing has begun. ` +
  "Press again, or leave the scene and set it there.";
const promptOfPage = () => document.querySelector("#ds-prompt textarea");

export class SceneRun {
  constructor() {
    this.root = h("div.controls.scene-run", { hidden: true });
    this.wanted = {}; // what was set here, until a press has found it in the page's controls
    this.waiting = 0; // the timer of a press that has not found it yet
  }

  /** In a scene whose page has controls, with what they hold. Who leaves it takes back a press that waits. */
  show(inScene) {
    const pagePrompt = promptOfPage();
    this.root.hidden = !inScene || !pagePrompt || !hostCan("set");
    if (this.root.hidden) {
      clearTimeout(this.waiting);
      this.wanted = {};
      return;
    }
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

  /** All that was set goes together: what went before may not have arrived, and would be undone. */
  set(values) {
    this.wanted = { ...this.wanted, ...values };
    askHost("set", this.wanted);
  }

  /** Presses the page's button, once its controls hold what was set here; the newest press counts. */
  press(name, since = performance.now()) {
    clearTimeout(this.waiting);
    const { prompt = promptOfPage().value, drafter = drafterChosen() } = this.wanted;
    if (prompt === promptOfPage().value && drafter === drafterChosen()) {
      this.wanted = {};
      document.querySelector(name).click();
      return;
    }
    if (performance.now() - since > PATIENCE_MS) {
      say(NOT_SET);
      return;
    }
    this.set({});
    this.waiting = setTimeout(() => this.press(name, since), AGAIN_MS);
  }
}
