// The page in the hands of a class's presenter: phones follow its lessons, and are asked about its runs.

import { button, h } from "../../../base/dom.js";
import { oneByOne } from "../../../base/order.js";
import { html } from "../../../vendor/lit-html.js";
import { questionsOf } from "./asking.js";
import { narrowPicture } from "./narrow.js";
import { postAs, presentRoom, presentedRoom } from "./screens/room.js";
import sheet from "./card.css" with { type: "css" };

class Presenting {
  /** `host` is the element. Without a room in this tab nothing is shown, sent or asked. */
  constructor(host) {
    this.host = host;
    this.room = presentedRoom();
    this.inOrder = oneByOne();
    this.line = this.room
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
    this.root = h("div", this.line, this.list);
  }

  get keys() {
    return { a: () => this.ask() };
  }

  /** What Learn says of it. */
  offer() {
    return html`<p class="sum">
      <a .href=${"class"}>Start a class</a>: everybody predicts real rounds on a phone, and you reveal them here.
    </p>`;
  }

  /** A step of a lesson, for phones: its words, and its pictures or its own `figure` as a narrow screen can show them. */
  stepped({ show, figure, ...step }) {
    const { store, cursor } = this.host;
    if (this.room) this.send("show", { ...step, ...narrowPicture(show, store, cursor, figure) });
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
    this.line.hidden = true;
  }

  /** Posts go one after another: a step that overtook the next one would leave the phones at it. */
  send(what, body) {
    return this.inOrder(() => this.post(what, body));
  }

  async post(what, body) {
    if (!this.room) return null; // it ended meanwhile
    try {
      return await postAs(this.room, what, body);
    } catch (error) {
      if (error.status === 404 || error.status === 403) this.forget();
      this.host.say(error.message);
      return null;
    }
  }
}

export const card = { area: "top", sheet, make: (page) => new Presenting(page) };
