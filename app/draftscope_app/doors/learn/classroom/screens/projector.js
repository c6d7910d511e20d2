// The projector: opens a room, shows its code, asks, reveals. Space goes on, the left arrow goes back.

import { oneByOne } from "../base/order.js";
import { html, nothing } from "../vendor/lit-html.js";
import { keptOf, press, questionOf, roomHead, showPage, stepOf, sumOf, treeOf, writtenOf } from "./drawing.js";
import { listen, post, postAs, presentRoom, presentedRoom, streamOf } from "./room.js";

const AGAIN_MS = 2000;
const DRAFTING = ["draft", "drafted"]; // phases whose next one is answered once the target has written
const ROOMY = 4; // answers at most, so that votes have a line of their own
const ONWARD = {
  lobby: "Start",
  lesson: "Next question",
  ask: "Reveal",
  reveal: "Next question",
  draft: "Let the target verify",
  drafted: "Next round",
};

class Projector {
  constructor(room) {
    this.room = room;
    this.state = null; // of the room, once it was heard
    this.reached = null; // the same, or what the last press has led to
    this.heard = () => {}; // called for each state
    this.inOrder = oneByOne();
    this.joined = 0;
    this.lost = "";
    this.sure = ""; // the place at which "End the class" was pressed once
    this.first = ""; // the question to begin with, where one was chosen
  }

  listen() {
    listen(
      streamOf(this.room),
      (state) => {
        this.lost = "";
        this.reached = state;
        this.heard();
        this.draw(state);
      },
      () => this.lookAgain(),
    );
  }

  /** The stream broke: the network is away, or the room is gone with its server. */
  async lookAgain() {
    if (present !== this) return; // another room was opened meanwhile
    try {
      await postAs(this.room, "turn", { action: "look" });
      this.listen();
    } catch (error) {
      if (present !== this) return;
      if (error.status === 404 || error.status === 403) {
        presentRoom(null);
        offer(error.message, "The room is over.");
      } else {
        this.lose("The connection to the server is lost; this page goes on trying.");
        setTimeout(() => this.lookAgain(), AGAIN_MS);
      }
    }
  }

  lose(sentence) {
    this.lost = sentence;
    this.draw();
  }

  /** What comes of it is heard, in order; of two presses the first may be answered last. */
  async turn(action) {
    try {
      this.reached = await postAs(this.room, "turn", { action });
    } catch (error) {
      this.lose(error.message);
    }
  }

  /** A turn in which the target writes: until it is answered, or heard of, for a presenter may go back meanwhile. */
  turnOfTarget(action) {
    const { phase } = this.reached;
    const elsewhere = new Promise((done) => {
      this.heard = () => this.reached.phase !== phase && done();
    });
    return Promise.race([this.turn(action), elsewhere]);
  }

  /** A clicker goes on wherever the focus is; a button or a link keeps only the space bar. */
  key(event) {
    if (!this.state || event.repeat) return; // a key that is held is one press
    if (event.target.closest(event.key === " " ? "button, a, select" : "select")) return;
    if (event.key === " " || event.key === "PageDown" || event.key === "ArrowRight") this.onward(event);
    if (event.key === "PageUp" || event.key === "ArrowLeft") this.back();
  }

  onward(event) {
    event.preventDefault();
    this.inOrder(() => this.goOn());
  }

  back() {
    this.inOrder(() => this.turn("back"));
  }

  /** A press is judged by what the one before it has led to: two quick ones would end a class without being asked. */
  async goOn() {
    const { phase, endsNext } = this.reached;
    if (!ONWARD[phase]) return; // the target is verifying, or the class has ended
    if (endsNext) this.end();
    else if (DRAFTING.includes(phase)) await this.turnOfTarget("next");
    else await this.turn(phase === "lobby" && this.first ? `ask:${this.first}` : "next");
  }

  /** The class drafts. */
  draft() {
    this.inOrder(() => this.turnOfTarget("draft"));
  }

  /** Where the class is, so that a press which asks is not answered elsewhere. */
  get place() {
    const { phase, number, question, writing, step } = this.reached;
    return JSON.stringify([phase, number, question, writing, step]);
  }

  /** Two presses: a room that has ended does not come back. */
  end() {
    if (this.sure === this.place) {
      this.turn("end");
    } else {
      this.sure = this.place;
      this.draw();
    }
  }

  draw(state = this.state) {
    if (present !== this) return; // the room is over
    this.state = state;
    if (state && state.phase !== "end") this.joined = state.joined; // phones leave at the end
    show({ lost: this.lost, ...(state && this.page(state)) });
  }

  page(state) {
    const { room, joined } = this;
    const main = VIEWS[state.phase](state, this);
    return { where: whereOf(state), code: room.code, joined, main, side: this.side(state) };
  }

  side(state) {
    const { phase, question, writing, drafts, endsNext } = state;
    const ends = this.sure === this.place ? "End it for everybody?" : "End the class";
    const word = endsNext ? ends : phase === "ask" && question.hintsLeft ? "Next hint" : ONWARD[phase];
    const onward = (event) => this.onward(event);
    return html`
      ${COUNTS[phase]?.(state)} ${writing?.kept.length ? scoresOf(writing) : nothing}
      ${word ? press(html`${word}<kbd>space</kbd>`, onward, "onward") : nothing}
      ${phase === "end" ? press("Open another room", open) : html`<a class="button" href="./?door=learn">Lessons</a>`}
      ${question ? press("Back", () => this.back()) : nothing}
      ${drafts && !writing && phase !== "end" ? press("The class drafts", () => this.draft()) : nothing}
      ${phase !== "lobby" && phase !== "end" && !endsNext ? press(ends, () => this.end()) : nothing}
    `;
  }
}

const show = ({ where = "", code = "", joined = 0, lost = "", main, side }) =>
  showPage(roomHead(where, code, joined), lost, main, html`<aside aria-live="polite">${side}</aside>`);

function whereOf({ question, place, writing, title }) {
  if (question) return [question.lesson, place].filter(Boolean).join(" · ");
  return writing ? `The class drafts · round ${writing.round}` : title;
}

const countOf = ({ answered, joined }, did) => html`
  <p class="large">${`${answered} of ${joined}`}</p>
  <p>${did}</p>
`;
const openDesk = () => window.open("class?desk", "draftscope-desk", "popup,width=480,height=720");

const COUNTS = {
  ask: (state) => countOf(state, "have answered"),
  reveal: ({ question, tally }) => html`
    <p><b class="large">${tally[question.truth]}</b>${` of ${sumOf(tally)} right`}</p>
  `,
  draft: (state) => html`${countOf(state, "have proposed")} ${press("See and hide words", openDesk)}`,
  end: ({ scores }) => (scores ? html`<p>${`Questions answered: ${scores.asked}.`}</p>` : nothing),
};

/** Tokens kept a round: the class's, and the head's at the same places. */
function scoresOf({ kept: mine, headKept, head }) {
  const line = (who, counts) => html`
    <p><b class="large">${(sumOf(counts) / counts.length).toFixed(1)}</b>${` kept a round: ${who}`}</p>
    <p class="muted">${counts.join("  ")}</p>
  `;
  return html`${line("the class", mine)} ${head ? line(head, headKept) : nothing}`;
}

const VIEWS = {
  lobby,
  lesson: ({ step }) => html`
    <h1>${step.title}</h1>
    ${stepOf(step)}
  `,
  ask: ({ question }) => [questionOf(question.ask, question), answersOf(question)],
  reveal: ({ question, tally }) => {
    const title = `It was ${question.options[question.truth]}.`;
    const why = html`<p class="why">${question.said}</p>`; // it says what the hints say
    return [questionOf(title, { ...question, hints: [] }), answersOf(question, tally), why];
  },
  draft: ({ writing }) => html`
    <h1>You are the drafter: what does the target write next?</h1>
    ${writtenOf(writing)}
  `,
  verify: () => html`<h1>The target is verifying.</h1>`,
  drafted: ({ writing }) => html`
    <h1>${keptOf(writing)}</h1>
    ${writtenOf(writing)} ${treeOf(writing.nodes, writing.last)}
    <p class="context">${writing.text}</p>
    ${writing.ended ? html`<p>The target has ended the text.</p>` : nothing}
  `,
  end: ({ scores }) => {
    if (!scores?.asked) return html`<h1>The class has ended.</h1>`;
    const line = (who, right) => html`<li><b class="large">${right}</b>${` of ${scores.asked}: ${who}`}</li>`;
    return html`
      <h1>How well was it predicted?</h1>
      <ul class="scores">
        ${line("the class, by its most frequent answer", scores.class)} ${line("its best phone", scores.best)}
        ${line("chance", scores.chance)}
      </ul>
    `;
  },
};

function lobby(_, projector) {
  const { room } = projector;
  const link = linkOf(room);
  const code = html`<img class="qr" alt="QR code of ${link}" width="420" height="420" src=${room.image ?? nothing} />`;
  const unreachable = html`<p class="qr unreachable">
    <span
      >No QR code: phones cannot reach ${location.hostname}, which is this computer's own address. Start it with
      <b>draftscope class</b>, or with <b>--host 0.0.0.0</b>, or share the page.</span
    >
  </p>`;
  const optionOf = ({ lesson, ask }, n) =>
    html`<option value=${n}>${`${n + 1}. ${lesson ? `${lesson}: ` : ""}${ask}`}</option>`;
  return html`
    <h1>Take your phone: you predict, the model shows.</h1>
    <div class="lobby">
      ${reachable(room) ? code : unreachable}
      <div>
        <p>${reachable(room) ? "Open" : "On this computer, open"}</p>
        <p class="link">${link.replace(/^https?:\/\//, "")}</p>
        <p>or this address without the letters, and type</p>
        <p class="code">${room.code}</p>
      </div>
    </div>
    <p>
      <label for="first">Begin with </label>
      <select id="first" @change=${({ target }) => (projector.first = target.value)}>
        <option value="">the first question</option>
        ${room.questions.map(optionOf)}
      </select>
    </p>
  `;
}

const isLoopback = () => ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
const reachable = (room) => Boolean(room.network) || !isLoopback();
const linkOf = (room) => new URL(`join?${room.code}`, isLoopback() && room.network ? room.network : location.href).href;

/** The answers in rows, the same before and after: at the reveal each has what was measured of it, and a dot a phone. */
function answersOf({ options, truth, bars }, tally = null) {
  const most = Math.max(...(tally ?? [0]));
  const size = most <= 9 ? "few" : most <= 30 ? "some" : "many";
  const answerOf = (text, n) =>
    html`<li class=${tally && n === truth ? "truth" : nothing}>
      <span class="option">${text}</span>
      <div>${bars.length ? measuredOf(bars[n]) : nothing} ${tally ? votesOf(tally[n]) : nothing}</div>
    </li>`;
  return html`<ol class="tally ${size} ${options.length > ROOMY ? "dense" : "roomy"}">
    ${options.map(answerOf)}
  </ol>`;
}

const measuredOf = ({ part, value }) =>
  html`<p class="measured"><i .style=${`width: ${55 * part}%`}></i><b>${value}</b></p>`;

const votesOf = (votes) => html`
  <p class="votes">
    <span class="dots" aria-hidden="true">${Array.from({ length: votes }, () => html`<i></i>`)}</span>
    <span>${votes} said so</span>
  </p>
`;

function offer(sentence, title = "Start a class") {
  present = null;
  const main = html`
    <h1>${title}</h1>
    <p>${sentence}</p>
    <p>${press("Open a room", open, "onward")}</p>
  `;
  show({ main });
}

let opening = false;
async function open() {
  if (opening) return; // a second press would open a second room
  opening = true;
  try {
    const room = await post("class/rooms", {});
    const link = `${linkOf(room)}.${room.ticket}`; // who scans it types nothing, and needs no guess
    const qr = reachable(room) ? await postAs(room, "qr", { link }).catch(() => ({})) : {}; // the letters do without
    presentRoom({ ...room, ...qr });
    start({ ...room, ...qr });
  } catch (error) {
    offer(error.message);
  } finally {
    opening = false;
  }
}

let present = null;
function start(room) {
  present = new Projector(room);
  present.listen();
}

document.addEventListener("keydown", (event) => present?.key(event));
const before = presentedRoom();
if (location.search === "?desk") import("./desk.js");
else if (before) start(before);
else offer("Everybody predicts on a phone; you reveal here. Nobody needs an account, and nothing is kept.");
