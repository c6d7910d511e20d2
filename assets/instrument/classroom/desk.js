// The presenter's own window, which nobody projects: what is proposed for the open round, before the class sees it.

import { h, setText } from "../base/dom.js";
import { listen, postAs, presentedRoom } from "../base/room.js";

const at = (id) => document.getElementById(id);
const room = presentedRoom();

async function draw(hide) {
  try {
    const proposals = await postAs(room, "proposals", hide === undefined ? {} : { hide });
    at("main").replaceChildren(
      h("h1", proposals.length ? "What the class proposes" : "No words are proposed yet"),
      h("p", "Only this window shows them. A hidden one is in no draft, and nobody sees it."),
      h("ul.proposals", ...proposals.map(proposalOf)),
    );
  } catch (error) {
    lost(error.message);
  }
}

const proposalOf = ({ text, votes, hidden }) =>
  h(
    "li",
    h("span", { class: hidden ? "hidden context" : "context" }, text),
    h("small", `${votes} proposed${hidden ? ", hidden" : ""}`),
    h(
      "button",
      { type: "button", "aria-label": `${hidden ? "Show" : "Hide"} ${text}`, on: { click: () => draw(text) } },
      hidden ? "Show" : "Hide",
    ),
  );

function lost(sentence) {
  at("lost").hidden = false;
  setText(at("lost"), sentence);
}

document.body.className = "phone";
setText(at("where"), "Proposals: do not project this window");
if (room) {
  setText(at("code"), room.code);
  listen(
    `class/${room.code}/events`,
    () => draw(),
    () => lost("The connection is lost; open this window again."),
  );
} else lost("This browser window has no room; open it from the projector.");
