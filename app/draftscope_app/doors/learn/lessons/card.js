// The lesson player: short steps that drive the page from a recorded run, a question at the end, and something to try.
//
// A lesson shows only the pictures it needs, and gives the page's run back at its end. Its sentences are in texts/;
// every number and token in them comes from its recording.

import { given } from "../../../base/given.js";
import { fromAddress, setInAddress } from "../../../base/address.js";
import { h } from "../../../base/dom.js";
import { askHost, hostCan, requestLesson } from "../../../base/host.js";
import { fold, newStore } from "../../../base/store.js";
import { smallButton } from "../../../base/templates.js";
import { html, keyed, nothing, render } from "../../../vendor/lit-html.js";
import sheet from "./card.css" with { type: "css" };
import { LESSONS } from "./lessons.js";
import { drawing } from "./drawings.js";
import { defineTerm, glossary } from "./terms.js";

class LessonPlayer {
  /** `host` is the element; `LESSONS` what there is to tell, of which the page has `lessonNames` recorded. */
  constructor(host) {
    this.host = host;
    this.all = LESSONS.filter((lesson) => given.lessonNames.includes(lesson.trace));
    this.root = h("div.learn");
    this.panel = h("section.card.lesson", { "aria-label": "Lesson", hidden: true });
  }

  /** The path of lessons, then what other cards offer to learners, the scenes and the glossary. */
  paint() {
    if (this.drawn) return;
    this.drawn = true;
    const path = html`<ol class="path" aria-label="Lessons">
      ${this.all.map((lesson, i) => this.stop(lesson, i + 1))}
    </ol>`;
    const menu = html`
      <h2 tabindex="-1">How can guessing make exact text faster?</h2>
      ${this.all.length ? path : html`<p class="sum">No lesson is recorded here.</p>`} ${this.host.cards.tell("offer")}
      ${this.host.cards.all.map(({ view }) => view.entrance ?? nothing)} ${this.host.scenes.list}
      <h3>Glossary</h3>
      ${glossary()}
    `;
    render(menu, this.root);
  }

  arrived() {
    this.start(Number(fromAddress("lesson")));
  }

  /** Another door: the lesson is left behind, and one that has not come yet begins there no more. */
  entered(door) {
    if (door === "learn") return;
    this.wanted = undefined;
    if (this.lesson) this.leave();
  }

  /** A lesson on the path: what it shows, its name, what it is about. */
  stop(lesson, number) {
    return html`<li>
      <button type="button" @click=${() => this.start(number)}>
        ${drawing(lesson)}<b>${number} ${lesson.title}</b><span class="note">${lesson.about}</span>
      </button>
    </li>`;
  }

  /** Its place on the path, from 1. */
  get number() {
    return this.all.indexOf(this.lesson) + 1;
  }

  /** The name of the recording that is shown. */
  get trace() {
    return this.lesson ? this.lesson.trace : "";
  }

  /** Asks the host for the lesson's run; the lesson begins when it has come. */
  start(number) {
    const lesson = this.all[number - 1];
    if (!lesson) return;
    this.wanted = lesson;
    requestLesson(lesson.trace);
  }

  /** The run of a lesson has come. */
  arrive(name, { ev: events, sweep, audits }) {
    if (!this.wanted || this.wanted.trace !== name) return;
    this.lesson = this.wanted;
    this.wanted = undefined;
    const store = newStore();
    store.source = "recorded";
    for (const event of events) fold(store, event);
    store.sweep = sweep || []; // whole runs that no trace holds: batches
    store.audits = audits || []; // of servers, as they ended
    this.host.showGuestRun(this, store);
    this.steps = [...this.lesson.steps(store).filter(Boolean), { ...this.lesson.last, question: true }];
    this.store = store;
    this.panel.hidden = false;
    setInAddress({ lesson: this.number });
    this.go(0);
    this.panel.querySelector("h3").focus({ preventScroll: true });
  }

  go(at) {
    this.at = Math.max(0, Math.min(at, this.steps.length - 1));
    const step = this.steps[this.at];
    const { host, store } = this;
    this.defined = "";
    host.main.dataset.show = step.show || "none";
    host.cursor.hiding = false;
    host.transport.pause();
    host.unfold.set("Resample", /trial/.test(step.show));
    if (step.act) step.act(host, store);
    this.figure = step.figure ? step.figure(store, host) : nothing;
    this.draw();
    const words = this.panel.querySelector(".lesson-words");
    host.cards.tell("stepped", {
      title: this.panel.querySelector("h3").textContent,
      at: this.at,
      of: this.steps.length,
      words: words.firstElementChild.textContent,
      show: step.show,
      figure: step.figure && words,
    });
    host.request();
  }

  /** The words of another step are other elements, so that they are read aloud as a whole. */
  draw() {
    const { steps, at, lesson, number } = this;
    const step = steps[at];
    const view = html`
      <header class="card-head">
        <h3 tabindex="-1">${`Lesson ${number} of ${this.all.length}: ${lesson.title}`}</h3>
        <div class="controls">${smallButton("All lessons", () => this.leave())}</div>
      </header>
      <div class="lesson-words" aria-live="polite">
        ${keyed(step, html`${step.question ? this.ending() : this.said(step.say)}${this.figure}`)}
      </div>
      <p class="note definition">${this.defined}</p>
      <div class="controls">
        ${smallButton("Back", () => this.go(at - 1), at === 0)}
        <button
          class="small leading"
          type="button"
          ?disabled=${at + 1 === steps.length}
          @click=${() => this.go(at + 1)}
        >
          Next
        </button>
        <span class="note">${`${at + 1} of ${steps.length}`}</span>
      </div>
    `;
    render(view, this.panel);
  }

  /** The question, its answer under a cover, what to try, and the next lesson. */
  ending() {
    const { question, answer, attempt } = this.lesson;
    const next = this.all[this.number];
    return html`
      <p><b>Question.</b> ${this.parts(question(this.store))}</p>
      <details>
        <summary>Answer</summary>
        ${this.said(answer(this.store))}
      </details>
      <p><b>Try it.</b> ${this.parts(attempt.words)}</p>
      <div class="controls">
        ${hostCan("set") ? smallButton("Set the controls", () => this.attempt(attempt.controls)) : nothing}
        ${next ? smallButton(`Next lesson: ${next.title}`, () => this.start(this.number + 1)) : nothing}
      </div>
    `;
  }

  attempt(controls) {
    this.leave();
    this.host.toWatch();
    askHost("set", controls);
    this.host.say("The controls are set; press Run.");
  }

  /** The page as it was. */
  leave() {
    this.close();
    this.host.restorePageRun();
    this.root.querySelector("h2")?.focus({ preventScroll: true }); // it is there once the door was opened
  }

  /** Removes the panel; the caller shows another run. */
  close() {
    this.lesson = this.wanted = undefined;
    this.panel.hidden = true;
    this.host.round.show("tree");
    this.host.unfold.set("Resample", false);
    delete this.host.main.dataset.show;
    setInAddress({ lesson: null });
  }

  // Words: strings, templates, and terms in double brackets, defined where they are pointed at.

  said(say) {
    return html`<p>${this.parts(say)}</p>`;
  }

  parts(say) {
    return [say]
      .flat(3)
      .flatMap((part) =>
        typeof part === "string"
          ? part.split(/\[\[(.+?)\]\]/).map((text, i) => (i % 2 ? this.term(text) : text))
          : [part],
      );
  }

  term(text) {
    const [name, shown = name] = text.split("|");
    const meaning = defineTerm(name);
    const tell = () => {
      this.defined = `${name}: ${meaning}`;
      this.draw();
    };
    return html`<button
      class="term"
      type="button"
      title=${meaning}
      @mouseenter=${tell}
      @focus=${tell}
      @click=${tell}
      .textContent=${shown}
    ></button>`;
  }
}

export const card = {
  area: "door",
  door: "learn",
  place: "lesson",
  feeds: "lesson",
  sheet,
  make: (page) => new LessonPlayer(page),
};
