// Scenes for a room: one or two pictures over the whole window, large enough to be read from its back.
//
// A scene is state and CSS: the same cards, the same selection, the same clock. It is laid out on a stage of 960 by 540
// units, on which no text is smaller than 14 and no stroke of a picture thinner than 1.5, so a projector of 1920 pixels
// shows 28 and 3. Keys 1 to 6 choose one, PageUp and PageDown (clickers) turn, Esc leaves.

import { embedded, setInAddress } from "../base/address.js";
import { button, h } from "../base/dom.js";
import { SceneRun } from "./scene-run.js";

const STAGE = { width: 960, height: 540 };
const SCENES = [
  ["race", "Race"],
  ["scale", "Round time"],
  ["decision", "Decision"],
  ["tree", "Tree"],
  ["strip", "Timeline"],
  ["formula", "Formula"],
];

/** How canvases and trees draw: on the page, and in a scene. `tall` is the room of a tree, `flat` that of a chain; a
 *  `brief` tree folds what was not reached, so that the rest can be read. */
const PAGE_LOOK = {
  small: 11,
  label: 12,
  thin: 0.75,
  rows: 1,
  smallest: 0.84,
  largest: 1.3,
  tall: null,
  flat: null,
  bare: false,
  brief: false,
};
const LARGE = {
  small: 14,
  label: 14,
  thin: 1.5,
  rows: 1.35,
  smallest: 1.28,
  largest: 2.2,
  tall: 330,
  flat: 330,
  bare: false,
  brief: false,
};
const LOOKS = {
  strip: { ...LARGE, rows: 3 },
  tree: { ...LARGE, tall: 360, flat: 360 },
  scale: { ...LARGE, tall: 218, flat: 134, bare: true, brief: true },
  decision: { ...LARGE, smallest: 1.12, tall: 330, flat: 108, bare: true, brief: true },
};
const FORM = 66; // of a tree's room: for the prompt, the drafter, Run and Step, where a page has them (--form in scenes.css)

/** Nothing on the page has the focus, or a button has it that starts or stops a run: keys are for the run. */
const isAfterRun = (target) => target === document.body || Boolean(target.closest?.("#ds-run, #ds-stop, #ds-step"));

export class Scenes {
  /**
   * `host` is the element, `show()` is called when its look has changed, `keys(event)` hears keys pressed outside it.
   */
  constructor(host, show, keys) {
    Object.assign(this, { host, show, at: 0, look: PAGE_LOOK });
    const large = { title: "Large pictures, one at a time, for presenting (keys 1 to 6)" };
    this.enter = button("Scenes", () => this.to(1), large);
    const enter = ([, title], i) => button(`${i + 1} ${title}`, () => this.to(i + 1));
    this.tabs = SCENES.map(enter);
    this.list = h(
      "section",
      { "aria-label": "Scenes" },
      h("h3", "Scenes"),
      h("p.note", "Large pictures of the run on Watch, one at a time; keys 1 to 6, or a clicker."),
      h("div.controls", SCENES.map(enter)),
    );
    const full = document.fullscreenEnabled ? button("Full screen", () => this.fullscreen()) : null;
    const window_ =
      embedded() && location.protocol.startsWith("http")
        ? h("a.full-window", { target: "_blank", rel: "noopener", href: location.href }, "Open full window")
        : null;
    this.nav = h(
      "span.scene-nav",
      { role: "group", "aria-label": "Scenes", hidden: true },
      this.tabs,
      full,
      window_,
      button("Exit", () => this.to(0), { title: "Esc" }),
    );
    this.run = new SceneRun();
    window.addEventListener("resize", () => this.fit());
    document.addEventListener("keydown", (event) => {
      if (!event.composedPath().includes(host) && (this.at || isAfterRun(event.target))) keys(event);
    });
  }

  /** A scene's number, or 0 for the page. */
  to(number) {
    if (number === this.at || number < 0 || number > SCENES.length) return;
    const entering = !this.at;
    this.at = number;
    const { name } = this;
    this.makeRoom();
    this.host.toggleAttribute("data-scene", Boolean(name));
    if (name) this.host.main.dataset.scene = name;
    else delete this.host.main.dataset.scene;
    this.nav.hidden = !name;
    this.enter.hidden = Boolean(name);
    this.tabs.forEach((tab, i) => tab.setAttribute("aria-pressed", String(i + 1 === number)));
    setInAddress({ scene: number || null });
    this.fit();
    if (entering || !number) this.host.main.focus({ preventScroll: true });
    if (!number && document.fullscreenElement) document.exitFullscreen();
    this.show(name);
  }

  get name() {
    return this.at ? SCENES[this.at - 1][0] : null;
  }

  /** The form is there, as far as the page has one, and pictures leave it its room. */
  makeRoom() {
    this.run.show(this.at > 0);
    const look = this.at ? LOOKS[this.name] || LARGE : PAGE_LOOK;
    this.look = this.run.root.hidden ? look : { ...look, tall: look.tall - FORM };
  }

  /** What a key means for scenes; null where it means nothing. */
  key(event) {
    if (/^[1-6]$/.test(event.key)) return () => this.to(Number(event.key));
    if (!this.at) return null;
    return (
      {
        PageDown: () => this.to(Math.min(this.at + 1, SCENES.length)),
        PageUp: () => this.to(Math.max(this.at - 1, 1)),
        Escape: () => this.to(0),
      }[event.key] || null
    );
  }

  fit() {
    const zoom = this.at
      ? Math.max(1, Math.min(window.innerWidth / STAGE.width, window.innerHeight / STAGE.height))
      : 1;
    this.host.main.style.zoom = String(zoom);
  }

  fullscreen() {
    if (document.fullscreenElement) document.exitFullscreen();
    else
      this.host
        .requestFullscreen()
        .catch(() => this.host.say("Full screen is blocked here; open the page in its own window."));
  }
}
