// The page in the hands of a class's presenter: phones follow its lessons, and are asked about its runs.

import { button, h } from "../base/dom.js";
import { given } from "../base/given.js";
import { postAs, presentRoom, presentedRoom } from "../base/room.js";
import { questionsOf } from "../lessons/asking.js";

export class Presenting {
  /** `host` is the element. Without a room in this tab nothing is shown, sent or asked. */
  constructor(host) {
    this.host = host;
    this.room = given.classes ? presentedRoom() : null;
    this.root = this.room
      ? h(
          "p.note.class-room",
          `Class ${this.room.code}: phones follow your lessons. `,
          h("kbd", "A"),
          " asks the class about the run that is shown. ",
          h("a", { href: "class" }, "To the projector"),
        )
      : null;
    this.list = h("dialog", {
      class: "class-questions",
      "aria-label": "What to ask the class",
      on: { keydown: (event) => event.stopPropagation() }, // the keys of the page rest
    });
  }

  /** A step of a lesson, for phones. */
  async show(step) {
    if (this.room) await this.send("show", step);
  }

  /** Lists the questions that the shown run can be asked. */
  ask() {
    if (!this.room) return;
    const questions = questionsOf(this.host.store, this.host.cursor.at);
    if (!questions.length) {
      this.host.say("This round has no guesses to ask about, and its run has nothing else; choose another one.");
      return;
    }
    this.list.replaceChildren(
      h("b", "What to ask the class"),
      ...questions.map((question) => button(question.ask, () => this.take(question))),
      button("Cancel", () => this.list.close(), { class: "link" }),
    );
    this.list.showModal();
  }

  /** Asks it; the projector shows it. */
  async take(question) {
    this.list.close();
    if (await this.send("take", question)) location.href = "class";
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
