// Scenes for a room: one or two pictures over the whole window, large enough to be read from its back.
//
// A scene is state and CSS: the same cards, the same selection, the same clock. It is laid out on a stage of 960 by 540
// units, on which no text is smaller than 14 and no stroke of a picture thinner than 1.5, so a projector of 1920 pixels
// shows 28 and 3. Keys 1 to 6 choose one, PageUp and PageDown (clickers) turn, Esc leaves.

(function (D) {
  "use strict";
  const { h } = D;
  const STAGE = { width: 960, height: 540 };
  const SCENES = [["race", "Race"], ["scale", "Round to scale"], ["contest", "Contest"], ["tree", "Tree"], ["strip", "Strip"], ["formula", "Formula"]];

  /** How canvases and trees draw: on the page, and in a scene. `tall` is the room of a tree, `flat` that of a chain. */
  D.LOOK = { small: 11, label: 12, thin: 0.75, rows: 1, smallest: 0.84, largest: 1.3, tall: null, flat: null, bare: false };
  const LARGE = { small: 14, label: 14, thin: 1.5, rows: 1, smallest: 1.28, largest: 2.2, tall: 330, flat: 330, bare: false };
  const LOOKS = { strip: { ...LARGE, rows: 2.2 }, scale: { ...LARGE, tall: 138, flat: 134 }, contest: { ...LARGE, smallest: 1.12, tall: 326, flat: 102, bare: true } };

  D.Scenes = class Scenes {
    /** `host` is the element, `show()` is called when its look has changed, `keys(event)` hears keys pressed outside it. */
    constructor(host, show, keys) {
      Object.assign(this, { host, show, at: 0, look: D.LOOK });
      this.enter = h("button", { class: "small scenes-enter", type: "button", text: "Scenes", title: "One picture at a time, for a room (keys 1 to 6)", on: { click: () => this.to(1) } });
      this.tabs = SCENES.map(([, title], i) => h("button", { class: "small", type: "button", text: `${i + 1} ${title}`, on: { click: () => this.to(i + 1) } }));
      const full = document.fullscreenEnabled ? h("button", { class: "small", type: "button", text: "Full screen", on: { click: () => this.fullscreen() } }) : null;
      const window_ = D.embedded() && location.protocol.startsWith("http") ? h("a", { class: "full-window", target: "_blank", rel: "noopener", text: "Open full window", href: location.href }) : null;
      this.nav = h("span", { class: "scene-nav", role: "group", "aria-label": "Scenes", hidden: true }, this.tabs, full, window_,
        h("button", { class: "small", type: "button", text: "Leave", title: "Esc", on: { click: () => this.to(0) } }));
      window.addEventListener("resize", () => this.fit());
      document.addEventListener("keydown", (event) => { if (this.at && !event.composedPath().includes(host)) keys(event); });
    }

    /** A scene's number, or 0 for the page. */
    to(number) {
      if (number === this.at || number < 0 || number > SCENES.length) return;
      const entering = !this.at;
      this.at = number;
      const [name] = number ? SCENES[number - 1] : [null];
      this.look = name ? LOOKS[name] || LARGE : D.LOOK;
      this.host.toggleAttribute("data-scene", Boolean(name));
      if (name) this.host.main.dataset.scene = name;
      else delete this.host.main.dataset.scene;
      this.nav.hidden = !name;
      this.enter.hidden = Boolean(name);
      this.tabs.forEach((tab, i) => tab.setAttribute("aria-pressed", String(i + 1 === number)));
      D.address("scene", number || null);
      this.fit();
      if (entering || !number) this.host.main.focus({ preventScroll: true });
      if (!number && document.fullscreenElement) document.exitFullscreen();
      this.show(name);
    }

    /** What a key means for scenes; null where it means nothing. */
    key(event) {
      if (/^[1-6]$/.test(event.key)) return () => this.to(Number(event.key));
      if (!this.at) return null;
      return { PageDown: () => this.to(Math.min(this.at + 1, SCENES.length)), PageUp: () => this.to(Math.max(this.at - 1, 1)), Escape: () => this.to(0) }[event.key] || null;
    }

    fit() {
      const zoom = this.at ? Math.max(1, Math.min(window.innerWidth / STAGE.width, window.innerHeight / STAGE.height)) : 1;
      this.host.main.style.zoom = String(zoom);
    }

    fullscreen() {
      if (document.fullscreenElement) document.exitFullscreen();
      else this.host.requestFullscreen().catch(() => this.host.say("This page may not fill the screen; open it in a full window."));
    }
  };

  /** Visual pixels for one of an element's own. */
  D.zoomOf = (element) => element.currentCSSZoom || 1;

  const only = (scene, parts) => `.ds[data-scene="${scene}"] :is(${parts}) { display: none !important; }`;

  D.sceneCss = () => `
:host([data-scene]) { position: fixed; inset: 0; z-index: 2000; overflow: auto; background: var(--page); }
.lessons-enter, .lessons-enter[hidden] + .scenes-enter { margin-left: auto; }
.scene-nav { display: flex; flex-wrap: wrap; gap: 5px; align-items: center; margin-left: auto; }
.scene-nav button[aria-pressed="true"] { background: var(--ink); color: var(--card); border-color: var(--ink); }
.full-window { padding: 0 6px; }
.ds[data-scene] { padding: 10px 16px; min-height: 520px; font-size: 14px; }
.ds[data-scene] * { font-size: 14px; }
.ds[data-scene] :is(h3, h4) { font-size: 16px; }
.ds[data-scene] h2 { font-size: 20px; min-height: 0; }
.ds[data-scene] .rate { font-size: 26px; }
.ds[data-scene] :is(.pane, .pane *) { font-size: 15px; line-height: 1.7; }
.ds[data-scene] .tree-svg text { font-size: 12.5px; }
.ds[data-scene] .tree-svg .pq { font-size: 11px; }
.ds[data-scene] .tree-svg :is(.edge, .shape) { stroke-width: 1.5; }
.ds[data-scene] .tree-svg .edge:is(.accepted, .bonus) { stroke-width: 3; }
.ds[data-scene] .tree-svg .node:is(.accepted, .rejected, .correction, .bonus) .shape { stroke-width: 2; }
.ds[data-scene] .node.sel .halo { stroke-width: 1.5; }
.ds[data-scene] :is(.basis, .keys, .save, .unfolds, .meta > span:not(.badge):not(.scene-nav), details, .item-line, .full-window[hidden]) { display: none !important; }
.ds[data-scene]:focus-visible { outline: none; }
.ds[data-scene] .lead { padding: 0; gap: 4px; }
.ds[data-scene]:not([data-scene="race"]) h2, .unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.ds[data-scene] .pair { display: flex; flex-direction: column; gap: 10px; }
.ds[data-scene] .ds { gap: 10px !important; min-height: 0; padding: 0; }
.ds[data-scene] .card { padding: 10px 14px; }
.ds[data-scene] .bar { height: 17px; }
.ds[data-scene] .bar-row, .ds[data-scene] .coin-row { grid-template-columns: 16px minmax(96px, 20%) minmax(40px, 1fr) auto; }
.ds[data-scene] .coin-row .words { grid-column: 3 / -1; }
.ds[data-scene] .coin-track { height: 12px; grid-column: 3 / -1; }
.ds[data-scene] .scale-row { grid-template-columns: 132px minmax(0, 1fr); }
.ds[data-scene] .scale-bar, .ds[data-scene] .scale-bar > * { height: 34px; line-height: 34px; }
.ds[data-scene] .curve text { font-size: 17px; }
.ds[data-scene] .curve :is(polyline, .chosen, .real) { stroke-width: 2.5; }
.ds[data-scene] .curve line { stroke-width: 1.75; }
${only("race", ".pair")}
${only("strip", ".lanes, .pair")}
${only("scale", ".lanes, .strip, .contest")}
${only("contest", ".lanes, .strip, .scale")}
${only("tree", ".lanes, .strip, .contest, .scale")}
${only("formula", ".lanes, .strip, .pair")}
.ds[data-scene="race"] .pane { height: 106px; margin: 4px -5px; }
.ds[data-scene="race"] :is(.strip .note, .readout-line) { display: none; }
.ds:is([data-scene="scale"], [data-scene="contest"]) .tree { flex-flow: row wrap; justify-content: space-between; align-items: center; }
.ds:is([data-scene="scale"], [data-scene="contest"]) .tree .card-head { flex: 1 1 300px; }
.ds[data-scene] .stepper button:not(.square) { padding: 0 8px; }
.ds[data-scene] .stepper { gap: 5px; }
.ds:is([data-scene="scale"], [data-scene="contest"]) .faces { flex: 1 0 100%; min-width: 0; }
.ds:is([data-scene="scale"], [data-scene="contest"]) .tree :is(.joined[aria-label^="Faces"], .legend) { display: none; }
.ds[data-scene="contest"] .pair .contest { height: 272px; min-height: 0; flex-flow: row wrap; align-content: flex-start; justify-content: space-between; }
.ds[data-scene="contest"] .contest .card-head { flex: 0 1 auto; }
.ds[data-scene="contest"] .contest-body { flex: 1 0 100%; height: calc(100% - 64px); }
.ds[data-scene="contest"][data-shape="chain"] .contest-body { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1.1fr); gap: 0 26px; align-content: start; }
.ds[data-scene="contest"][data-shape="chain"] .contest-body > * { grid-column: 1; margin-bottom: 8px; align-self: start; }
.ds[data-scene="contest"][data-shape="chain"] .contest-body > .bars { grid-column: 2; grid-row: 1 / span 9; }
.ds[data-scene="contest"][data-shape="chain"] .contest-body > .legend { grid-column: 2; grid-row: 10; }
.ds[data-scene="contest"][data-shape="tree"] .pair { display: grid; grid-template: "round contest" auto / minmax(0, 1fr) minmax(0, 1.05fr); }
.ds[data-scene="contest"][data-shape="tree"] .pair .contest { height: 474px; flex-flow: column; }
.ds[data-scene="contest"][data-shape="tree"] .contest-body { flex: 1; }
.ds[data-scene="formula"] .formula { border: 0; padding: 0; grid-template-columns: minmax(0, 0.75fr) minmax(0, 1fr); }
.ds[data-scene="formula"] .scene-box { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: 14px 16px; }
.ds[data-scene="contest"] .bars { gap: 2px; }
@container (max-width: 700px) {
  .ds[data-scene] .scale-row { grid-template-columns: minmax(0, 1fr); }
  .ds[data-scene] .scale-words { grid-column: 1; }
  .ds[data-scene="contest"][data-shape] .pair { display: flex; }
  .ds[data-scene="contest"][data-shape] .pair .contest { height: auto; }
  .ds[data-scene="contest"][data-shape="chain"] .contest-body { display: flex; }
  .ds[data-scene="formula"] .formula { grid-template-columns: minmax(0, 1fr); }
}
`;
})(window.Draftscope);
