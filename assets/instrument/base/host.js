// What passes between the instrument and the page around it. An instrument that runs alone has no host, and then
// nothing can be requested.

import { withSettings } from "./models.js";

let host = { events: [], trigger: () => {}, server: {} };
let wanted = {}; // what was requested last
const early = []; // deltas that came before the element was ready

/** The host says how it is asked: `trigger(event, data)` for the `events` that it listens to, and `server`, functions
 *  that answer. */
export function connect(other) {
  host = other;
}

/** Called by the host for every delta. */
export function receive(text) {
  const instrument = document.querySelector("draftscope-instrument");
  if (instrument && instrument.shadowRoot) instrument.feed(text);
  else if (text) early.push(text);
}

/** Handed out once, to the element that is ready. */
export const earlyDeltas = () => early.splice(0);

export const hostCan = (kind) => host.events.includes(kind);

/** It has a function of this name. */
export const hostAnswers = (name) => Boolean(host.server[name]);

/** Asks for something whose answer comes as deltas: a fork, a comparison, a check, other settings. */
export function askHost(kind, payload) {
  wanted = payload;
  host.trigger(kind, { payload });
}

/** Asks for the run of the tab with this token, which the host may have from before a reload. */
export function resumeRun(token) {
  if (hostCan("resume")) host.trigger("resume", { payload: token });
}

/** Names the tab that opens by this token: after a reload it finds its run by it. */
export async function claimTab(token) {
  if (hostCan("resume")) receive(await callServer("claim", token));
}

/** Says that the page with this token is closed, reloaded or left. The browser sends it even then. */
export function leavePage(token) {
  if (hostCan("resume")) navigator.sendBeacon(new URL("left", document.baseURI), token);
}

/** The host's controls, with what a lesson asks to try. */
export const attempted = (names, values) => withSettings(names, values, wanted);

/** The answer of one of the server's functions; undefined, and a sentence on the page, where none came. */
export async function callServer(name, question) {
  const answer = await host.server[name]?.(question);
  if (answer === undefined) say("The server did not answer; reload the page.");
  return answer;
}

/** Asks for the run that is shown from that event on. */
export const fetchRest = async (from) => receive(await callServer("again", from));

/** Asks for a lesson's recorded run. */
export const requestLesson = async (name) => receive(await callServer("lesson", name));

export const pressStop = () => document.querySelector("#ds-stop").click();

/** One sentence for the reader; beside it a `link` as selectable text, `offers` ({text, act} each) as buttons, and a
 *  `code` for cameras. */
export function say(text, link, offers, code) {
  const instrument = document.querySelector("draftscope-instrument");
  if (instrument && instrument.say) instrument.say(text, link, offers, code);
}
