// The presenter's own window, which nobody projects: what is proposed for the open round, before the class sees it.

import { oneByOne } from "../base/order.js";
import { html, repeat } from "../vendor/lit-html.js";
import { roomHead, showPage } from "./drawing.js";
import { listen, postAs, presentedRoom, streamOf } from "./room.js";

const room = presentedRoom();
const inOrder = oneByOne();
const shown = { proposals: null, joined: 0, lost: "" };

/** Shows what is new. */
function show(news) {
  const { proposals, joined, lost } = Object.assign(shown, news);
  const head = roomHead("Proposals: do not project this window", room?.code, joined);
  showPage(head, lost, proposals && listOf(proposals));
}

const listOf = (proposals) => html`
  <h1>${proposals.length ? "What the class proposes" : "No words are proposed yet"}</h1>
  <p>Only this window shows them. A hidden one is in no draft, and nobody sees it.</p>
  <ul class="proposals">
    ${repeat(proposals, ({ text }) => text, proposalOf)}
  </ul>
`;

function proposalOf({ text, votes, hidden }) {
  const word = hidden ? "Show" : "Hide";
  const change = hidden ? { show: text } : { hide: text };
  return html`<li>
    <span class=${hidden ? "hidden context" : "context"}>${text}</span>
    <small>${votes} proposed${hidden ? ", hidden" : ""}</small>
    <button type="button" aria-label="${word} ${text}" @click=${() => look(change)}>${word}</button>
  </li>`;
}

async function look(change = {}) {
  try {
    show({ proposals: await inOrder(() => postAs(room, "proposals", change)) });
  } catch (error) {
    show({ lost: error.message });
  }
}

function follow({ joined }) {
  show({ joined });
  look();
}

document.body.className = "phone";
if (room) listen(streamOf(room), follow, () => show({ lost: "The connection is lost; open this window again." }));
else show({ lost: "This browser window has no room; open it from the projector." });
