// The page in the hands of a class's presenter: phones follow its lessons, and are asked about rounds of its runs.

import { h } from "../base/dom.js";
import { given } from "../base/given.js";
import { postAs, presentRoom, presentedRoom } from "../base/room.js";
import { knownAt } from "../base/stages.js";
import { guessesAt } from "../lessons/narrow.js";

const CONTEXT = 90; // characters of the text before a round
const COUNTED = 11; // guesses in a row that have an answer each

export class Presenting {
  /** `host` is the element. Without a room in this tab nothing is shown, sent or asked. */
  constructor(host) {
    this.host = host;
    this.room = given.classes ? presentedRoom() : null;
    this.root = this.room
      ? h(
          "p",
          { class: "note class-room" },
          `Class ${this.room.code}: phones follow your lessons. `,
          h("kbd", { text: "A" }),
          " asks the class about the round that is shown. ",
          h("a", { href: "class", text: "To the projector" }),
        )
      : null;
  }

  /** A step of a lesson, for phones. */
  async show(step) {
    if (this.room) await this.send("show", step);
  }

  /** Asks the class how much of the shown round is kept, and goes to the projector. */
  async ask() {
    const { at, round } = this.host.cursor;
    if (!this.room) return;
    if (!round?.drafted || round.cut) this.host.say("This round has no guesses to ask about; choose another one.");
    else if (await this.send("take", questionAbout(at.lane, round))) location.href = "class";
  }

  /** The room is over. */
  forget() {
    presentRoom(null);
    this.room = null;
    this.root.hidden = true;
  }

  async send(what, body) {
    try {
      return await postAs(this.room, what, body);
    } catch (error) {
      if (error.status === 404 || error.status === 403) this.forget();
      this.host.say(error.message);
      return null;
    }
  }
}

function questionAbout(lane, round) {
  const text =
    lane.start.prompt +
    lane.tokens
      .slice(0, round.firstToken)
      .map((token) => token.text)
      .join("");
  const guesses = guessesAt(round, knownAt(round, Infinity));
  const last = guesses.at(-1);
  const { accepted } = round;
  const most = Math.min(round.depth, COUNTED);
  return {
    ask: "How many guesses in a row does the target keep?",
    context: `… ${text.replace(/\s+/g, " ").slice(-CONTEXT)}`,
    options: Array.from({ length: most + 1 }, (_, n) => (n === COUNTED ? `${n} or more` : String(n))),
    truth: Math.min(accepted, most),
    said: `${accepted} of ${round.drafted} ${accepted === 1 ? "was" : "were"} kept, and the target added ${last.text}, its ${last.fate}. ${round.emitted.length} tokens for one pass of the target.`,
    guesses,
  };
}
