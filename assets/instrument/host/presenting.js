// The page in the hands of a class's presenter: phones follow its lessons, and are asked about rounds of its runs.

import { h } from "../base/dom.js";
import { given } from "../base/given.js";
import { postAs, presentRoom, presentedRoom } from "../base/room.js";
import { survivalQuestion, verdictQuestion } from "../lessons/asking.js";

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
          " asks the class about the round that is shown, ",
          h("kbd", { text: "Shift A" }),
          " whether its marked guess is kept. ",
          h("a", { href: "class", text: "To the projector" }),
        )
      : null;
  }

  /** A step of a lesson, for phones. */
  async show(step) {
    if (this.room) await this.send("show", step);
  }

  /** Asks the class how much of the shown round is kept, or whether its chosen `guess` is; and goes to the projector. */
  async ask(guess) {
    const { at, round } = this.host.cursor;
    if (!this.room) return;
    const question = at && (guess ? verdictQuestion : survivalQuestion)(at.lane, round, at.key);
    if (!question)
      this.host.say(
        guess
          ? "This guess was not decided by a random number and min(1, p/q); choose another one."
          : "This round has no guesses to ask about; choose another one.",
      );
    else if (await this.send("take", question)) location.href = "class";
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
