// The projector: opens a room, shows its code, asks, reveals. Space goes on, the left arrow goes back.

import { h, setText } from "../base/dom.js";
import { listen, post, postAs, presentRoom, presentedRoom } from "../base/room.js";
import { guessesOf, keptOf, stepOf, treeOf } from "./drawing.js";

const AGAIN_MS = 2000;
const at = (id) => document.getElementById(id);
const main = at("main");
const side = at("side");
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
    this.drawn = "";
  }

  listen() {
    listen(
      `class/${this.room.code}/events`,
      (state) => {
        at("lost").hidden = true;
        this.draw(state);
      },
      () => this.lookAgain(),
    );
  }

  /** The stream broke: the network is away, or the room is gone with its server. */
  async lookAgain() {
    const lost = (sentence) => {
      at("lost").hidden = false;
      setText(at("lost"), sentence);
    };
    try {
      await postAs(this.room, "turn", { action: "look" });
      this.listen();
    } catch (error) {
      if (error.status === 404 || error.status === 403) {
        presentRoom(null);
        present = null;
        offer(error.message, "The room is over.");
      } else {
        lost("The connection to the server is lost; this page goes on trying.");
        setTimeout(() => this.lookAgain(), AGAIN_MS);
      }
    }
  }

  async turn(action) {
    try {
      this.draw(await postAs(this.room, "turn", { action }));
    } catch (error) {
      at("lost").hidden = false;
      setText(at("lost"), error.message);
    }
  }

  key(event) {
    if (event.target.closest("button, a, select, input")) return;
    if (event.key === " " || event.key === "PageDown" || event.key === "ArrowRight") this.onward(event);
    if (event.key === "PageUp" || event.key === "ArrowLeft") this.turn("back");
  }

  onward(event) {
    event.preventDefault();
    if (this.state.phase !== "end") this.turn("next");
  }

  draw(state) {
    this.state = state;
    setText(at("code"), this.room.code);
    if (state.phase !== "end") setText(at("joined"), String(state.joined)); // phones leave at the end
    setText(
      at("where"),
      state.question
        ? [state.question.lesson, state.place].filter(Boolean).join(" · ")
        : state.writing
          ? `The class drafts · round ${state.writing.round}`
          : state.title,
    );
    const drawn = JSON.stringify([state.phase, state.number, state.question, state.scores, state.writing, state.step]);
    if (drawn !== this.drawn) {
      this.drawn = drawn;
      main.replaceChildren(...VIEWS[state.phase](this, state));
      side.replaceChildren(...this.sideOf(state));
    }
    const count = document.getElementById("answered");
    if (count) setText(count, `${state.answered} of ${state.joined}`);
  }

  sideOf({ phase, question, tally, scores, writing, drafts, endsNext }) {
    const parts = [];
    if (phase === "ask") parts.push(h("p.large", { id: "answered" }), h("p", "have answered"));
    if (phase === "reveal") {
      const answered = tally.reduce((sum, votes) => sum + votes, 0);
      parts.push(h("p", h("b.large", String(tally[question.truth])), ` of ${answered} right`));
      parts.push(h("p", question.said));
    }
    if (phase === "end" && scores) parts.push(h("p", `Questions answered: ${scores.asked}.`));
    if (phase === "draft") {
      parts.push(h("p.large", { id: "answered" }), h("p", "have proposed"));
      const desk = () => window.open("class?desk", "draftscope-desk", "popup,width=480,height=720");
      parts.push(h("button", { type: "button", on: { click: desk } }, "See and hide words"));
    }
    if (writing?.kept.length) parts.push(...scoresOf(writing));
    const word = endsNext ? "End the class" : phase === "ask" && question.hintsLeft ? "Next hint" : ONWARD[phase];
    if (word)
      parts.push(h("button.onward", { type: "button", on: { click: (e) => this.onward(e) } }, word, h("kbd", "space")));
    if (phase !== "end") parts.push(h("a.button", { href: "./?door=learn" }, "Lessons"));
    if (question) parts.push(h("button", { type: "button", on: { click: () => this.turn("back") } }, "Back"));
    if (drafts && !writing && phase !== "end") {
      parts.push(h("button", { type: "button", on: { click: () => this.turn("draft") } }, "The class drafts"));
    }
    if (phase !== "lobby" && phase !== "end" && !endsNext) parts.push(this.ending());
    if (phase === "end") parts.push(h("button", { type: "button", on: { click: open } }, "Open another room"));
    return parts;
  }

  /** Two presses: a room that has ended does not come back. */
  ending() {
    const sure = "End it for everybody?";
    const end = h("button", { type: "button" }, "End the class");
    end.addEventListener("click", () => (end.textContent === sure ? this.turn("end") : setText(end, sure)));
    return end;
  }
}

/** Tokens kept a round: the class's, and the head's at the same places. */
function scoresOf({ kept: mine, headKept, head }) {
  const mean = (counts) => (counts.reduce((sum, count) => sum + count, 0) / counts.length).toFixed(1);
  const line = (who, counts) => [
    h("p", h("b.large", mean(counts)), ` kept a round: ${who}`),
    h("p.muted", counts.join("  ")),
  ];
  return [...line("the class", mine), ...(head ? line(head, headKept) : [])];
}

const VIEWS = {
  draft: (_, { writing }) => [
    h("h1", "You are the drafter: what does the target write next?"),
    h("p.context", writing.context || writing.prompt),
  ],
  verify: () => [h("h1", "The target is verifying.")],
  drafted: (_, { writing }) =>
    [
      h("h1", keptOf(writing)),
      h("p.context", writing.context || writing.prompt),
      treeOf(writing.nodes, writing.last),
      h("p.context", writing.text),
      writing.ended && h("p", "The target has ended the text."),
    ].filter(Boolean),
  lobby: (projector) => lobby(projector),
  lesson: (_, { step }) => [h("h1", step.title), ...stepOf(step)],
  ask: (_, { question }) => questionParts(question, question.ask),
  reveal: (_, { question, tally }) => questionParts(question, `It was ${question.options[question.truth]}.`, tally),
  end: (_, { scores }) =>
    [
      h("h1", scores?.asked ? "How well was it predicted?" : "The class has ended."),
      scores?.asked > 0 &&
        h(
          "ul.scores",
          ...[
            ["the class, by its most frequent answer", scores.class],
            ["its best phone", scores.best],
            ["chance", scores.chance],
          ].map(([who, right]) => h("li", h("b.large", String(right)), ` of ${scores.asked}: ${who}`)),
        ),
    ].filter(Boolean),
};

function lobby(projector) {
  const { room } = projector;
  const link = linkOf(room);
  const image = h("img.qr", { alt: `QR code of ${link}`, width: "420", height: "420" });
  post("class/qr", { link }).then((answer) => (image.src = answer.image));
  const first = h(
    "select",
    { id: "first", on: { change: ({ target }) => projector.turn(`ask:${target.value}`) } },
    h("option", "the first question"),
    ...room.questions.map(({ lesson, ask }, n) =>
      h("option", { value: String(n) }, `${n + 1}. ${lesson ? `${lesson}: ` : ""}${ask}`),
    ),
  );
  return [
    h("h1", "Take your phone: you predict, the model shows."),
    h(
      "div.lobby",
      image,
      h(
        "div",
        h("p", "Open"),
        h("p", { class: "link", text: link.replace(/^https?:\/\//, "") }),
        h("p", "or this address without the letters, and type"),
        h("p.code", room.code),
      ),
    ),
    reachable(room)
      ? null
      : h("p.warning", "Other devices cannot reach this server: start it with --host 0.0.0.0, or share its page."),
    h("p", h("label", { for: "first" }, "Begin with "), first),
  ].filter(Boolean);
}

const isLoopback = () => ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
const reachable = (room) => Boolean(room.network) || !isLoopback();
const linkOf = (room) => new URL(`join?${room.code}`, isLoopback() && room.network ? room.network : location.href).href;

/** The question and its answers in columns, of which each dot is a phone; the same places before and after. */
function questionParts({ context, guesses, hints, options, truth }, title, tally = null) {
  const most = Math.max(...(tally ?? [0]));
  const size = most <= 9 ? "few" : most <= 30 ? "some" : "many";
  return [
    h("h1", title),
    context && h("p.context", context),
    guesses.length > 0 && guessesOf(guesses),
    ...(tally ? [] : hints).map((text) => h("p.hint", text)), // the reveal says them all
    h(
      "ol",
      { class: `tally ${size}` },
      ...options.map((text, n) =>
        h(
          "li",
          { class: tally && n === truth ? "truth" : null },
          tally && h("b.votes", String(tally[n])),
          h("span.dots", { "aria-hidden": "true" }, ...Array.from({ length: tally?.[n] ?? 0 }, () => h("i"))),
          h("span.option", text),
        ),
      ),
    ),
  ].filter(Boolean);
}

function offer(sentence, title = "Start a class") {
  side.replaceChildren();
  at("lost").hidden = true;
  for (const [id, text] of Object.entries({ where: "", code: "", joined: "0" })) setText(at(id), text);
  main.replaceChildren(
    h("h1", title),
    h("p", sentence),
    h("p", h("button.onward", { type: "button", on: { click: open } }, "Open a room")),
  );
}

async function open() {
  try {
    const room = await post("class/rooms", {});
    presentRoom(room);
    start(room);
  } catch (error) {
    offer(error.message);
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
