// The lesson player: short steps that drive the page from a recorded run, a question at the end, and something to try.
//
// A lesson shows only the pictures it speaks of. The run that was shown before comes back when it is left. What a lesson
// says stands in lessontexts.js; every figure and token in it is folded from its recording.

(function (D) {
  "use strict";
  const { h } = D;
  const PARTS = { lanes: ".lanes", strip: ".strip", tree: ".pair > .tree", contest: ".pair > .contest", scale: ".pair > .scale", trial: ".unfolds" };

  D.LessonPlayer = class LessonPlayer {
    /** `host` is the element; `D.lessons` what there is to tell, of which the page has `D.lessonNames` recorded. */
    constructor(host) {
      this.host = host;
      this.all = D.lessonNames ? D.lessons.filter((lesson) => D.lessonNames.includes(lesson.trace)) : [];
      this.enter = h("button", { class: "small lessons-enter", type: "button", text: "Lessons", hidden: !this.all.length, "aria-expanded": "false", on: { click: () => this.list(this.menu.hidden) } });
      this.menu = h("section", { class: "card lesson-list", "aria-label": "Lessons", hidden: true }, h("h3", { text: "Lessons" }),
        h("ol", {}, this.all.map((lesson, i) => h("li", {}, h("button", { class: "link", type: "button", text: lesson.title, on: { click: () => this.start(i + 1) } }), ` ${lesson.about}`))));
      this.title = h("h3", { tabindex: "-1" });
      this.words = h("div", { class: "lesson-words", "aria-live": "polite" });
      this.definition = h("p", { class: "note definition" });
      this.place = h("span", { class: "note" });
      const button = (text, act) => h("button", { class: "small", type: "button", text, on: { click: act } });
      this.back = button("Back", () => this.go(this.at - 1));
      this.next = button("Next", () => this.go(this.at + 1));
      this.next.classList.add("leading");
      this.panel = h("section", { class: "card lesson", "aria-label": "Lesson", hidden: true },
        h("header", { class: "card-head" }, this.title, h("div", { class: "controls" }, button("All lessons", () => this.list(this.menu.hidden)), button("Leave", () => this.leave()))),
        this.words, this.definition, h("div", { class: "controls" }, this.back, this.next, this.place));
      this.root = h("div", { class: "lessons" }, this.menu, this.panel);
    }

    list(open) {
      this.menu.hidden = !open;
      this.enter.setAttribute("aria-expanded", String(open));
    }

    /** The name of the recording that is shown. */
    get trace() {
      return this.lesson ? this.lesson.trace : "";
    }

    /** Asks the host for the lesson's run; the lesson begins when it has come. */
    start(number) {
      const lesson = this.all[number - 1];
      if (!lesson) return;
      this.list(false);
      this.wanted = lesson;
      D.lesson(lesson.trace);
    }

    /** The run of a lesson has come. */
    arrive(name, events, sweep) {
      if (!this.wanted || this.wanted.trace !== name) return;
      this.lesson = this.wanted;
      this.wanted = undefined;
      const store = D.newStore();
      store.source = "recorded";
      for (const event of events) D.fold(store, event);
      store.sweep = sweep || []; // whole runs that no trace holds: batches
      this.host.borrow(store);
      this.steps = [...this.lesson.steps(store).filter(Boolean), { ...this.lesson.last, question: true }];
      this.store = store;
      this.panel.hidden = false;
      this.enter.hidden = true;
      D.address("lesson", this.all.indexOf(this.lesson) + 1);
      this.go(0);
      this.title.focus({ preventScroll: true });
    }

    go(at) {
      this.at = Math.max(0, Math.min(at, this.steps.length - 1));
      const step = this.steps[this.at];
      const number = this.all.indexOf(this.lesson) + 1;
      D.setText(this.title, `Lesson ${number} of ${this.all.length}: ${this.lesson.title}`);
      D.setText(this.place, `${this.at + 1} of ${this.steps.length}`);
      D.setText(this.definition, "");
      this.back.disabled = this.at === 0;
      this.next.disabled = this.at + 1 === this.steps.length;
      this.host.main.dataset.show = step.show || "none";
      this.host.hiding = false;
      this.host.transport.pause();
      this.host.unfold.set("Toss it again", /trial/.test(step.show));
      if (step.act) step.act(this.host, this.store);
      this.words.replaceChildren(...(step.question ? this.ending() : [this.said(step.say)]), ...(step.figure ? [step.figure(this.store, this.host)] : []));
      this.host.request();
    }

    /** The question, its answer under a cover, what to try, and the next lesson. */
    ending() {
      const { question, answer, attempt } = this.lesson;
      const number = this.all.indexOf(this.lesson) + 1;
      const controls = D.canAsk("set");
      return [h("p", { class: "lesson-question" }, h("b", { text: "Question. " }), ...this.parts(question(this.store))),
        h("details", {}, h("summary", { text: "The answer" }), this.said(answer(this.store))),
        h("p", {}, h("b", { text: "Try it. " }), ...this.parts(attempt.words)),
        h("div", { class: "controls" },
          controls ? h("button", { class: "small", type: "button", text: "Set the controls so", on: { click: () => this.attempt(attempt.controls) } }) : null,
          number < this.all.length ? h("button", { class: "small", type: "button", text: `Next lesson: ${this.all[number].title}`, on: { click: () => this.start(number + 1) } }) : null)];
    }

    attempt(controls) {
      this.leave();
      D.ask("set", controls);
      this.host.say("The controls are set; press Run.");
    }

    /** The page as it was. */
    leave() {
      this.close();
      this.host.giveBack();
      this.enter.focus({ preventScroll: true });
    }

    /** The panel goes; whoever calls it shows another run. */
    close() {
      this.lesson = this.wanted = undefined;
      this.panel.hidden = true;
      this.enter.hidden = false;
      this.host.round.show("tree");
      this.host.unfold.set("Toss it again", false);
      delete this.host.main.dataset.show;
      D.address("lesson", null);
    }

    // Words: strings, elements, and terms in double brackets, defined where they are pointed at.

    said(say) {
      return h("p", {}, this.parts(say));
    }

    parts(say) {
      return [say].flat(3).flatMap((part) => (typeof part === "string" ? part.split(/\[\[(.+?)\]\]/).map((text, i) => (i % 2 ? this.term(text) : text)) : [part]));
    }

    term(text) {
      const [name, shown] = text.split("|");
      const tell = () => D.setText(this.definition, `${name}: ${D.define(name)}`);
      return h("button", { class: "term", type: "button", title: D.define(name), text: shown || name, on: { mouseenter: tell, focus: tell, click: tell } });
    }
  };

  const hides = Object.entries(PARTS).map(([name, part]) => `.ds[data-show]:not([data-scene], [data-show~="${name}"]) ${part} { display: none; }`).join("\n");

  D.lessonCss = () => `
${hides}
.ds[data-show]:not([data-scene]) :is(.keys, .fork, .unfolds > .controls) { display: none; }
.ds[data-show]:not([data-scene]) .pair { display: grid; grid-template: none; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); align-items: start; }
.ds[data-show]:not([data-scene]) .pair > * { grid-area: auto; height: auto; min-height: 0; }
.ds[data-show="none"]:not([data-scene]) :is(.pair, .basis) { display: none; }
.ds[data-show="none"]:not([data-scene]) h2 { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.ds[data-scene] .lessons { display: none; }
.lessons { display: contents; }
.lesson, .lesson-list { order: -1; } /* seen above the sentence, read after it */
.lesson { border: 2px solid var(--ink); display: flex; flex-direction: column; gap: 8px; }
.lesson h3:focus { outline: none; }
.lesson-words { display: flex; flex-direction: column; gap: 8px; font-size: 16px; line-height: 1.55; min-height: 50px; }
.lesson-words > :not(.worth) { max-width: 78ch; }
.lesson-words code { font: 14px var(--mono); background: var(--soft); padding: 1px 4px; border-radius: 4px; }
.lesson-words summary { font-size: 14px; }
.lesson-words details p { margin-top: 6px; }
.definition { min-height: 18px; }
.term { font: inherit; border: 0; background: none; padding: 0; border-bottom: 1.5px dotted var(--ink); border-radius: 0; cursor: help; }
.leading { background: var(--ink); color: var(--card); border-color: var(--ink); }
.leading:disabled { background: var(--card); color: var(--muted); border-color: var(--rule); }
.lesson-list ol { padding-left: 22px; font-size: 13.5px; }
.lesson-list li { padding: 3px 0; color: var(--muted); }
.lesson-list button.link { font: 600 13.5px var(--sans); }
.rowbars { display: grid; grid-template-columns: auto minmax(60px, 1fr) auto; gap: 5px 10px; align-items: center; font-size: 13px; }
.rowbars > div { display: contents; }
.rowbars i { display: block; height: 15px; background: color-mix(in srgb, var(--ink) 82%, var(--card)); }
.rowbars span { color: var(--muted); font-variant-numeric: tabular-nums; }
.arrivals { display: grid; grid-template-columns: 130px minmax(0, 1fr); gap: 6px 10px; align-items: end; font-size: 13px; color: var(--muted); }
.arrivals svg { width: 100%; height: 24px; display: block; }
.arrivals path { fill: none; stroke-width: 1.6; vector-effect: non-scaling-stroke; }
.arrivals .plain { stroke: var(--ink); } .arrivals .burst { stroke: var(--accepted); } .arrivals .paced { stroke: var(--draft); } .arrivals .rule { stroke: var(--rule); }
.copies { display: flex; flex-direction: column; gap: 4px; font-size: 13px; color: var(--muted); }
.copies svg { width: 100%; height: 150px; display: block; }
.copies path { fill: none; vector-effect: non-scaling-stroke; stroke: var(--accepted); }
.copies .fell { stroke: var(--rejected); stroke-dasharray: 4 3; }
.copies .prompt { stroke: var(--rule); stroke-width: 6; } .copies .written { stroke: var(--ink); stroke-width: 6; }
.copies .ends { display: flex; justify-content: space-between; gap: 12px; }
.worth .share { display: inline-block; height: 9px; margin-right: 6px; background: var(--draft); }
.sweep circle { fill: var(--ink); } .sweep line.span { stroke: var(--ink); }
.worth td { white-space: nowrap; }
.prefetch { display: flex; flex-direction: column; gap: 4px; font-size: 13px; color: var(--muted); }
.prefetch svg { width: 100%; height: 132px; display: block; }
.prefetch .line { stroke: var(--rule); fill: none; vector-effect: non-scaling-stroke; }
.prefetch .ends { display: flex; justify-content: space-between; gap: 12px; flex-wrap: wrap; }
.prefetch rect { vector-effect: non-scaling-stroke; stroke-width: 1.5; }
.prefetch .key { margin-right: 14px; white-space: nowrap; }
.prefetch .key i { display: inline-block; width: 12px; height: 12px; margin-right: 5px; vertical-align: -1px; border: 1.5px solid; }
.prefetch .hit { fill: var(--draft); background: var(--draft); stroke: var(--draft); border-color: var(--draft); }
.prefetch .miss { fill: var(--card); background: var(--card); stroke: var(--draft); border-color: var(--draft); }
.prefetch .busy { fill: var(--rule); background: var(--rule); stroke: none; border-color: var(--rule); }
.prefetch .waited { fill: var(--muted); background: var(--muted); stroke: none; border-color: var(--muted); }
.arrivals .ends { display: flex; justify-content: space-between; }
@container (max-width: 560px) { .arrivals { grid-template-columns: minmax(0, 1fr); } }
`;
})(window.Draftscope);
