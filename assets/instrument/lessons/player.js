// The lesson player: short steps that drive the page from a recorded run, a question at the end, and something to try.
//
// A lesson shows only the pictures it needs, and gives the page's run back at its end. Its sentences are in texts/;
// every number and token in them comes from its recording.

import { given } from "../base/given.js";
import { setInAddress } from "../base/address.js";
import { button, h, remark, setText } from "../base/dom.js";
import { askHost, hostCan, requestLesson } from "../base/host.js";
import { fold, newStore } from "../base/store.js";
import { LESSONS } from "./lessons.js";
import { drawing } from "./drawings.js";
import { narrowPicture } from "./narrow.js";
import { defineTerm, glossary } from "./terms.js";

export class LessonPlayer {
  /** `host` is the element; `LESSONS` what there is to tell, of which the page has `lessonNames` recorded. `scenes`
   *  stand between them and the glossary. */
  constructor(host, ...scenes) {
    this.host = host;
    this.all = LESSONS.filter((lesson) => given.lessonNames.includes(lesson.trace));
    this.menu = h(
      "div.learn",
      h("h2", { tabindex: "-1" }, "How can guessing make exact text faster?"),
      this.all.length
        ? h(
            "ol.path",
            { "aria-label": "Lessons" },
            this.all.map((lesson, i) => this.stop(lesson, i + 1)),
          )
        : remark("No lesson is recorded here."),
      given.classes &&
        h(
          "p.sum",
          h("a", { href: "class" }, "Start a class"),
          ": everybody predicts real rounds on a phone, and you reveal them here.",
        ),
      ...scenes,
      h("h3", "Glossary"),
      glossary(),
    );
    this.title = h("h3", { tabindex: "-1" });
    this.words = h("div.lesson-words", { "aria-live": "polite" });
    this.definition = h("p.note.definition");
    this.place = h("span.note");
    this.back = button("Back", () => this.go(this.at - 1));
    this.next = button("Next", () => this.go(this.at + 1));
    this.next.classList.add("leading");
    this.panel = h(
      "section.card.lesson",
      { "aria-label": "Lesson", hidden: true },
      h(
        "header.card-head",
        this.title,
        h(
          "div.controls",
          button("All lessons", () => this.leave()),
        ),
      ),
      this.words,
      this.definition,
      h("div.controls", this.back, this.next, this.place),
    );
  }

  /** A lesson on the path: what it shows, its name, what it is about. */
  stop(lesson, number) {
    return h(
      "li",
      h(
        "button",
        { type: "button", on: { click: () => this.start(number) } },
        drawing(lesson),
        h("b", `${number} ${lesson.title}`),
        h("span.note", lesson.about),
      ),
    );
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
    this.host.showLessonRun(store);
    this.steps = [...this.lesson.steps(store).filter(Boolean), { ...this.lesson.last, question: true }];
    this.store = store;
    this.panel.hidden = false;
    setInAddress({ lesson: this.all.indexOf(this.lesson) + 1 });
    this.go(0);
    this.title.focus({ preventScroll: true });
  }

  go(at) {
    this.at = Math.max(0, Math.min(at, this.steps.length - 1));
    const step = this.steps[this.at];
    const number = this.all.indexOf(this.lesson) + 1;
    setText(this.title, `Lesson ${number} of ${this.all.length}: ${this.lesson.title}`);
    setText(this.place, `${this.at + 1} of ${this.steps.length}`);
    setText(this.definition, "");
    this.back.disabled = this.at === 0;
    this.next.disabled = this.at + 1 === this.steps.length;
    this.host.main.dataset.show = step.show || "none";
    this.host.cursor.hiding = false;
    this.host.transport.pause();
    this.host.unfold.set("Resample", /trial/.test(step.show));
    if (step.act) step.act(this.host, this.store);
    const figure = step.figure ? step.figure(this.store, this.host) : null;
    const words = step.question ? this.ending() : [this.said(step.say)];
    this.words.replaceChildren(...words, ...(figure ? [figure] : []));
    this.host.presenting.show({
      title: this.title.textContent,
      at: this.at,
      of: this.steps.length,
      words: words[0].textContent,
      ...narrowPicture(step.show, this.store, this.host.cursor, figure),
    });
    this.host.request();
  }

  /** The question, its answer under a cover, what to try, and the next lesson. */
  ending() {
    const { question, answer, attempt } = this.lesson;
    const number = this.all.indexOf(this.lesson) + 1;
    const controls = hostCan("set");
    return [
      h("p", h("b", "Question. "), ...this.parts(question(this.store))),
      h("details", h("summary", "Answer"), this.said(answer(this.store))),
      h("p", h("b", "Try it. "), ...this.parts(attempt.words)),
      h(
        "div.controls",
        controls ? button("Set the controls", () => this.attempt(attempt.controls)) : null,
        number < this.all.length
          ? button(`Next lesson: ${this.all[number].title}`, () => this.start(number + 1))
          : null,
      ),
    ];
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
    this.menu.querySelector("h2").focus({ preventScroll: true });
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

  // Words: strings, elements, and terms in double brackets, defined where they are pointed at.

  said(say) {
    return h("p", this.parts(say));
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
    const [name, shown] = text.split("|");
    const tell = () => setText(this.definition, `${name}: ${defineTerm(name)}`);
    return h(
      "button.term",
      { type: "button", title: defineTerm(name), on: { mouseenter: tell, focus: tell, click: tell } },
      shown || name,
    );
  }
}
