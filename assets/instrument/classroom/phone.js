// A phone of a class: one question, its answers, and what came of it. It follows the presenter; a phone that lost its
// connection keeps its answer and sends it when the room is back.

import { h, setText } from "../base/dom.js";
import { listen, post, session } from "../base/room.js";
import { guessesOf, keptOf, stepOf } from "./drawing.js";

const LETTERS = 4;
const AGAIN_MS = 3000; // before a lost room is looked for again
const at = (id) => document.getElementById(id);
const main = at("main");

class Phone {
  constructor(code) {
    this.code = code;
    this.name = `draftscope-class-${code}`;
    this.unsent = null; // {question, option} that the server has not taken yet
    this.drawn = ""; // what `main` shows: the question and its phase
    this.wandering = null; // {steps, at}: a step that the class is not at; or {titles}, to choose a lesson
  }

  /** Joins, or joins again with the same token, and listens. */
  async join() {
    if (!this.state) main.replaceChildren(h("p", `Looking for the room ${this.code} …`));
    try {
      const { phone } = await post(`class/${this.code}/join`, { phone: session.read(this.name) ?? "" });
      this.token = phone;
      session.write(this.name, phone);
      this.listen();
    } catch (error) {
      if (error.status === 404) askForCode(error.message, this.code, this.state ? "The room is over." : undefined);
      else this.lose(error.status === 409 ? error.message : undefined);
    }
  }

  listen() {
    listen(
      `class/${this.code}/events?phone=${encodeURIComponent(this.token)}`,
      (state) => {
        at("lost").hidden = true;
        this.state = state;
        if (state.phase !== "lesson") this.wandering = null; // a question calls everybody back
        this.draw();
        this.send();
      },
      () => this.lose(),
    );
  }

  async ask(what) {
    const answer = await fetch(`class/${this.code}/${what}`);
    if (!answer.ok) throw new Error(what);
    return answer.json();
  }

  /** Leaves the class's step for what `findStep()` gives; null leads back to the class. */
  async wander(findStep) {
    try {
      this.wandering = await findStep();
      this.draw();
      main.querySelector("h1").focus();
    } catch {
      setText(at("foot"), "This did not come; try again.");
    }
  }

  back() {
    return this.wander(() => null);
  }

  /** To a step before the class's own. */
  earlier(to) {
    return this.wander(async () => {
      const steps = await this.ask("lesson");
      const shown = steps.findIndex(({ at: n }) => n === to);
      return { steps, at: Math.max(0, shown) }; // the first, where none was shown
    });
  }

  choose() {
    return this.wander(async () => ({ titles: await this.ask("lessons") }));
  }

  /** To the beginning of a lesson. */
  toLesson(number) {
    return this.wander(async () => ({ steps: await this.ask(`lesson?number=${number}`), at: 0 }));
  }

  lose(sentence = "The connection is lost. Your answer is kept; this phone goes on trying.") {
    at("lost").hidden = false;
    setText(at("lost"), sentence);
    setTimeout(() => this.join(), AGAIN_MS);
  }

  answer(option) {
    this.unsent = { question: this.state.number, option };
    this.state.yours = option;
    this.draw();
    this.send();
  }

  async send() {
    const sent = this.unsent;
    if (!sent) return;
    if (this.state.phase !== "ask" || this.state.number !== sent.question) {
      this.unsent = null;
      return;
    }
    try {
      await post(`class/${this.code}/answer`, { phone: this.token, ...sent });
      if (this.unsent === sent) this.unsent = null;
      this.draw();
    } catch (error) {
      if (error.status) setText(at("foot"), error.message);
    }
  }

  draw() {
    const { state } = this;
    setText(at("code"), this.code);
    setText(at("where"), whereOf(state, this.wandering));
    document.body.classList.toggle("wandering", Boolean(this.wandering));
    const { phase, number, question, scores, writing, step } = state;
    const drawn = JSON.stringify([phase, number, question, scores, writing, step, this.wandering]);
    if (drawn !== this.drawn) {
      this.drawn = drawn;
      main.replaceChildren(...VIEWS[state.phase](this, state).flat().filter(Boolean));
    }
    for (const button of main.querySelectorAll("button[data-option]")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.option) === state.yours));
    }
    setText(at("foot"), footOf(this, state));
  }
}

function whereOf({ question, place, writing, step, title }, wandering) {
  if (wandering) return `You wander · the class is at step ${step.at + 1}`;
  if (step) return `Following the presenter · step ${step.at + 1} of ${step.of}`;
  if (question) return `Following the presenter · ${place}`;
  return writing ? `You draft · round ${writing.round}` : title;
}

const press = (text, click, props) => h("button", { type: "button", text, on: { click }, ...props });

/** The presenter's step, or where this phone went: another step, or the list of lessons. */
function lesson(phone, { step }) {
  const { wandering } = phone;
  const back = wandering && press("Back to the class", () => phone.back(), { class: "onward" });
  const others = press("Other lessons", () => phone.choose());
  if (wandering?.titles) {
    const titles = wandering.titles.map((title, n) => press(title, () => phone.toLesson(n + 1)));
    return [h("h1", { tabindex: "-1" }, "Which lesson?"), h("div.answers", back, ...titles)];
  }
  const steps = wandering?.steps ?? [];
  const now = wandering ? wandering.at : step.at;
  const shown = wandering ? steps[now] : step;
  const to = (n) => phone.wander(() => ({ steps, at: n }));
  return [
    h("h1", { tabindex: "-1" }, shown.title),
    ...stepOf(shown),
    h(
      "div.answers",
      now > 0 && press("An earlier step", () => (wandering ? to(now - 1) : phone.earlier(now - 1))),
      now + 1 < steps.length && press("A later step", () => to(now + 1)),
      back,
      others,
    ),
  ];
}

/** What a phone proposes for this round; the field stays as it is while others propose theirs. */
function proposing(phone, { writing }) {
  const field = h("input", {
    id: "words",
    maxlength: "60",
    autocomplete: "off",
    value: at("words")?.value ?? phone.state.proposed,
  });
  const send = async (text) => {
    try {
      await post(`class/${phone.code}/propose`, { phone: phone.token, text });
      phone.state.proposed = text.trim();
      phone.draw();
    } catch (error) {
      setText(at("foot"), error.message);
    }
  };
  const submit = (event) => {
    event.preventDefault();
    send(field.value);
  };
  return [
    h("h1", "What does the target write next?"),
    h("p.context", writing.context || writing.prompt),
    writing.options.length > 0 && [
      h("p", "Choose one of these, or write your own words."),
      h(
        "div.answers.two",
        { role: "group", "aria-label": "Words to choose from" },
        writing.options.map((text) => h("button", { type: "button", on: { click: () => send(text) } }, text)),
      ),
    ],
    h("form", { on: { submit } }, h("label", { for: "words" }, "Your next words"), field, h("button", "Propose")),
  ];
}

const drafted = ({ writing }) => [h("h1", keptOf(writing)), h("p.context", writing.text)];

const VIEWS = {
  draft: (phone, state) => proposing(phone, state),
  verify: () => [h("h1", "The target is verifying.")],
  drafted: (_, state) => drafted(state),
  lesson,
  lobby: (_, { title }) => [h("h1", title), h("p", "You are in. The presenter starts.")],
  ask: (phone, { question }) => [
    ...headOf(question.ask, question),
    h(
      "div.answers",
      { role: "group", "aria-label": "Your answer" },
      ...question.options.map((text, option) =>
        h("button", { type: "button", "data-option": String(option), on: { click: () => phone.answer(option) } }, text),
      ),
    ),
  ],
  reveal: (_, { question, yours, tally }) => {
    const answered = tally.reduce((sum, votes) => sum + votes, 0);
    const truth = `It was ${question.options[question.truth]}.`;
    const said = yours === null ? "You gave no answer." : `You said ${question.options[yours]}.`;
    return [
      ...headOf(`${said} ${truth}`, question),
      h("p", question.said),
      h("p.muted", `Right: ${tally[question.truth]} of ${answered}.`),
    ];
  },
  end: (_, { right, judged, scores }) => [
    h("h1", judged ? `You were right ${right} of ${judged} times.` : "The class has ended."),
    scores &&
      h(
        "p",
        `The class, by its most frequent answer: ${scores.class} of ${scores.asked}; its best phone: ${scores.best}; chance: ${scores.chance}.`,
      ),
    h("p", h("a", { href: "./" }, "Look at the rounds in Draftscope")),
  ],
};

const headOf = (title, { context, guesses, hints }) =>
  [
    h("h1", title),
    context && h("p.context", context),
    guesses.length > 0 && guessesOf(guesses),
    ...hints.map((text) => h("p.hint", text)),
  ].filter(Boolean);

function footOf(phone, { phase, answered, joined, yours, proposed, right, judged }) {
  if (phase === "reveal") return judged ? `You were right ${right} of ${judged} times so far.` : "";
  if (phase === "draft")
    return `${proposed ? `You propose: ${proposed}. Change it until the round is closed. ` : ""}${answered} of ${joined} proposed.`;
  if (phase !== "ask") return "";
  const mine = phone.unsent
    ? "Your answer is being sent. "
    : yours === null
      ? ""
      : "Your answer is in; change it until the reveal. ";
  return `${mine}${answered} of ${joined} answered.`;
}

function askForCode(sentence, code = "", title = "Join a class") {
  at("lost").hidden = true;
  document.body.classList.remove("wandering");
  for (const [id, text] of Object.entries({ where: "Draftscope class", code: "", foot: "" })) setText(at(id), text);
  const field = h("input", {
    id: "letters", maxlength: String(LETTERS), autocomplete: "off", autocapitalize: "characters", spellcheck: "false", value: code,
  }); // prettier-ignore
  const go = (event) => {
    event.preventDefault();
    if (field.value.trim()) location.search = field.value.trim().toUpperCase();
  };
  main.replaceChildren(
    h(
      "form",
      { on: { submit: go } },
      h("h1", title),
      h("p", sentence),
      h("label", { for: "letters" }, "Code on the projector"),
      field,
      h("button", "Join"),
    ),
  );
  field.focus();
}

const code = decodeURIComponent(location.search.slice(1))
  .toUpperCase()
  .replace(/[^A-Z]/g, "")
  .slice(0, LETTERS);
if (code.length === LETTERS) new Phone(code).join();
else askForCode("The projector shows four letters.");
