// A phone of a class: one question, its answers, and what came of it. It follows the presenter; a phone that lost its
// connection keeps its answer and sends it when the room is back.

import { newestOf, oneByOne } from "../base/order.js";
import { guard, html, keyed, nothing } from "../vendor/lit-html.js";
import { barsOf, keptOf, press, questionOf, showPage, stepOf, sumOf, writtenOf } from "./drawing.js";
import { device, listen, post } from "./room.js";

const LETTERS = 6;
const MINE = "draftscope-class-phone"; // {code, phone}: this device's token in the room where it was last
const AGAIN_MS = 3000; // before a lost room is looked for again

class Phone {
  constructor(code, ticket) {
    this.code = code;
    this.ticket = ticket; // of the QR code; empty where the letters were typed
    this.state = null; // of the room, once it was heard
    this.unsent = null; // {question, option} that the server has not taken yet
    this.sending = false; // an answer is on its way
    this.wandering = null; // {steps, at}: a step that the class is not at; or {titles}, to choose a lesson
    this.newest = newestOf(); // of the places to wander to
    this.inOrder = oneByOne(); // proposals
    this.lost = "";
    this.over = false;
  }

  /** Joins, or joins again with the same token, and listens. */
  async join() {
    this.draw(this.note);
    try {
      const before = device.read(MINE);
      const token = before?.code === this.code ? before.phone : "";
      const { phone } = await post(`class/${this.code}/join`, { phone: token, ticket: this.ticket });
      this.token = phone;
      device.write(MINE, { code: this.code, phone });
      this.listen();
    } catch (error) {
      this.over = error.status === 404;
      if (this.over) askForCode(error.message, this.code, this.state ? "The room is over." : undefined);
      else this.lose([409, 429].includes(error.status) ? error.message : undefined);
    }
  }

  listen() {
    listen(
      `class/${this.code}/events?phone=${encodeURIComponent(this.token)}`,
      (state) => {
        this.lost = "";
        this.state = state;
        if (state.phase === "end") device.write(MINE, null);
        if (state.phase !== "lesson") this.comeBack(); // a question calls everybody back
        this.draw();
        this.send();
      },
      () => this.lose(),
    );
  }

  async ask(what, number = "") {
    const query = new URLSearchParams({ phone: this.token, number });
    const answer = await fetch(`class/${this.code}/${what}?${query}`);
    if (!answer.ok) throw new Error(what);
    return answer.json();
  }

  /** Leaves the class's step for what `findStep()` gives; null leads back to the class. */
  async wander(findStep) {
    try {
      const place = await this.newest(findStep());
      if (place === undefined) return; // another one was wanted meanwhile
      this.wandering = place;
      this.draw();
      document.querySelector("h1").focus();
    } catch {
      this.draw("This did not come; try again.");
    }
  }

  /** Whatever was still looked for does not lead away again. */
  comeBack() {
    this.newest(null);
    this.wandering = null;
  }

  /** The step before that of the class; the first, where it was not shown. */
  async before(at) {
    const steps = await this.ask("lesson");
    const shown = steps.findIndex((step) => step.at === at - 1);
    return { steps, at: Math.max(0, shown) };
  }

  lose(sentence = "The connection is lost. Your answer is kept; this phone goes on trying.") {
    this.lost = sentence;
    this.sending = false; // what was on its way may never be answered; it goes again
    this.inOrder = oneByOne();
    this.draw(this.note);
    setTimeout(() => this.join(), AGAIN_MS);
  }

  answer(option) {
    this.unsent = { question: this.state.number, option };
    this.state.yours = option;
    this.draw();
    this.send();
  }

  /** One answer at a time, then the newest: none overtakes the one that takes its place. */
  async send() {
    const sent = this.unsent;
    if (!sent || this.sending) return;
    if (this.state.phase !== "ask" || this.state.number !== sent.question) {
      this.unsent = null;
      return;
    }
    this.sending = true;
    try {
      await post(`class/${this.code}/answer`, { phone: this.token, ...sent });
      if (this.unsent === sent) this.unsent = null;
      this.draw();
    } catch (error) {
      if (error.status) this.draw(error.message);
    }
    this.sending = false;
    if (this.unsent !== sent) this.send();
  }

  async propose(text) {
    const { round } = this.state.writing;
    try {
      await this.inOrder(() => post(`class/${this.code}/propose`, { phone: this.token, text }));
      if (this.state.writing?.round === round) this.state.proposed = text.trim();
      this.draw();
    } catch (error) {
      this.draw(error.message);
    }
  }

  /** `note` stands in the foot until something is new. */
  draw(note = "") {
    const { state, code, lost, wandering } = this;
    this.note = note;
    if (this.over) return;
    if (state) {
      // another question, round or step is drawn anew: a finger on this one presses nothing of it
      const place = wandering ?? `${state.number} ${state.writing?.round}`;
      const main = keyed(place, VIEWS[state.phase](this, state));
      show({ code, lost, wandering, where: whereOf(state, wandering), main, foot: note || footOf(this, state) });
    } else show({ lost, main: html`<p>Looking for the room ${code} …</p>` });
  }
}

function show({ where = "Draftscope class", code = "", lost = "", wandering = null, main, foot = "" }) {
  document.body.classList.toggle("wandering", Boolean(wandering));
  const head = html`<span>${where}</span><b id="code">${code}</b>`;
  showPage(head, lost, main, html`<footer aria-live="polite">${foot}</footer>`);
}

function whereOf({ question, place, writing, step, title }, wandering) {
  if (wandering) return `You wander · the class is at step ${step.at + 1}`;
  if (step) return `Following the presenter · step ${step.at + 1} of ${step.of}`;
  if (question) return `Following the presenter · ${place}`;
  return writing ? `You draft · round ${writing.round}` : title;
}

/** The presenter's step, or where this phone went: another step, or the list of lessons. */
function lesson(phone, { step }) {
  const { wandering } = phone;
  const to = (words, findStep, look) => press(words, () => phone.wander(findStep), look);
  const back = wandering ? to("Back to the class", () => null, "onward") : nothing;
  if (wandering?.titles) {
    const beginning = async (number) => ({ steps: await phone.ask("lesson", number), at: 0 });
    return html`
      <h1 tabindex="-1">Which lesson?</h1>
      <div class="answers">${back} ${wandering.titles.map((title, n) => to(title, () => beginning(n + 1)))}</div>
    `;
  }
  const { steps = [], at } = wandering ?? step;
  const shown = wandering ? steps[at] : step;
  const earlier = () => (wandering ? { steps, at: at - 1 } : phone.before(at));
  return html`
    <h1 tabindex="-1">${shown.title}</h1>
    ${stepOf(shown)}
    <div class="answers">
      ${at > 0 ? to("An earlier step", earlier) : nothing}
      ${at + 1 < steps.length ? to("A later step", () => ({ steps, at: at + 1 })) : nothing} ${back}
      ${to("Other lessons", async () => ({ titles: await phone.ask("lessons") }))}
    </div>
  `;
}

/** What was typed into the form that is sent. */
function typedIn(event) {
  event.preventDefault();
  return event.target.querySelector("input").value;
}

/** What a phone proposes for this round; the field stays as it is while others propose theirs. */
function draft(phone, { writing, proposed }) {
  const choices = html`
    <p>Choose one of these, or write your own words below.</p>
    <div class="answers two" role="group" aria-label="Words to choose from">
      ${writing.options.map((text) => press(text, () => phone.propose(text)))}
    </div>
  `;
  return html`
    <h1>What does the target write next?</h1>
    ${writtenOf(writing)} ${writing.options.length ? choices : nothing}
    <form class="own" @submit=${(event) => phone.propose(typedIn(event))}>
      <label for="words">Your next words</label>
      <input id="words" maxlength="60" autocomplete="off" value=${guard([], () => proposed)} />
      <button class="onward">Propose</button>
    </form>
  `;
}

function ask(phone, { question, yours }) {
  const answerOf = (text, n) => {
    const answer = () => phone.answer(n);
    return html`<button type="button" data-option=${n} aria-pressed=${n === yours} @click=${answer}>${text}</button>`;
  };
  return html`
    ${questionOf(question.ask, question)}
    <div class="answers" role="group" aria-label="Your answer">${question.options.map(answerOf)}</div>
  `;
}

function reveal(_, { question, yours, tally }) {
  const { options, truth, said, bars } = question;
  const mine = yours === null ? "You gave no answer." : `You said ${options[yours]}.`;
  return html`
    ${questionOf(`${mine} It was ${options[truth]}.`, question)} ${barsOf(bars)}
    <p>${said}</p>
    <p class="muted">Right: ${tally[truth]} of ${sumOf(tally)}.</p>
  `;
}

function end(_, { right, judged, scores }) {
  const line = ({ class: majority, asked: of, best, chance }) =>
    `The class, by its most frequent answer: ${majority} of ${of}; its best phone: ${best}; chance: ${chance}.`;
  return html`
    <h1>${judged ? `You were right ${right} of ${judged} times.` : "The class has ended."}</h1>
    ${scores ? html`<p>${line(scores)}</p>` : nothing}
    <p><a href="./">Look at the rounds in Draftscope</a></p>
  `;
}

const VIEWS = {
  lobby: (_, { title }) => html`
    <h1>${title}</h1>
    <p>You are in. The presenter starts.</p>
  `,
  lesson,
  ask,
  reveal,
  draft,
  verify: () => html`<h1>The target is verifying.</h1>`,
  drafted: (_, { writing }) => html`
    <h1>${keptOf(writing)}</h1>
    <p class="context">${writing.prompt}</p>
    <p class="written">${writing.text}</p>
  `,
  end,
};

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
  const go = (event) => {
    const letters = typedIn(event).trim().toUpperCase();
    if (letters) location.search = letters;
  };
  const main = html`<form @submit=${go}>
    <h1>${title}</h1>
    <p>${sentence}</p>
    <label for="letters">Code on the projector</label>
    <input
      id="letters"
      maxlength=${LETTERS}
      autocomplete="off"
      autocapitalize="characters"
      spellcheck="false"
      value=${code}
    />
    <button>Join</button>
  </form>`;
  show({ main });
  document.getElementById("letters").focus();
}

const [letters, ticket = ""] = location.search.slice(1).split(".");
const code = letters
  .toUpperCase()
  .replace(/[^A-Z]/g, "")
  .slice(0, LETTERS);
if (code.length === LETTERS) new Phone(code, ticket).join();
else askForCode("The projector shows six letters.");
