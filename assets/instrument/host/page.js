// What the hosting page does around the instrument: hands over deltas, keeps the settings in the address, copies the
// link, switches the theme. None of it is needed where the element is hosted by something else.

import { given } from "../base/given.js";
import { fromAddress, keptInAddress, leavePlace, writeAddress } from "../base/address.js";
import { copied } from "../base/copied.js";
import { setText } from "../base/dom.js";
import { callServer, say } from "../base/host.js";
import { giveStandIns } from "../base/models.js";
import { saveFile } from "../draw/pictures.js";
import { fitPrompt } from "./composer.js";
import { showDoor } from "./doors.js";
import { showDrafters } from "./drafters.js";
import { showTaught, teacherQuery } from "./teach.js";
import { isRead } from "./visible.js";

// A press of Run or Step waits until the controls hold the settings of the address; before that it would send others.
let arrived = false;
let pressed = null;
const runs = "#ds-run, #ds-step";
const instrument = () => document.querySelector("draftscope-instrument");

/** From now on; called once. */
export function holdPresses() {
  document.addEventListener("click", holdPress, true);
  document.addEventListener("click", stopPicture, true);
  document.addEventListener("click", openDrafters, true);
  document.addEventListener("click", skipToRun);
}

/** The skip link leads past the controls to the instrument, which then hears the keys. */
function skipToRun(event) {
  if (!(event.target instanceof Element) || !event.target.closest(".ds-skip")) return;
  event.preventDefault();
  instrument().main.focus();
}

function holdPress(event) {
  const button = event.target instanceof Element && event.target.closest(runs);
  if (button) instrument()?.pressed(button.id === "ds-step");
  if (arrived || !button) return;
  event.stopImmediatePropagation();
  event.preventDefault();
  pressed = button;
  button.setAttribute("aria-busy", "true");
}

/** Stop freezes what is seen. If the engine has decoded it all already, nothing more stops: whole runs are timed on. */
function stopPicture(event) {
  if (!(event.target instanceof Element) || !event.target.closest("#ds-stop")) return;
  const withdrawn = Boolean(pressed); // what waits for the settings does not begin
  pressed?.removeAttribute("aria-busy");
  pressed = null;
  if (!instrument()?.freeze(withdrawn)) return;
  event.stopImmediatePropagation();
  event.preventDefault();
}

/** The list of drafters is drawn when it is opened, with what this page has measured by then. */
function openDrafters({ target }) {
  if (!(target instanceof Element) || !target.closest("[data-opens=ds-drafters]")) return;
  showDrafters((name) => instrument()?.runs.gain(name), drafter);
}

/** The host has set the controls; the page lays them out before the waiting press goes on. */
export function settingsArrived() {
  showTaught();
  setTimeout(fitPrompt);
  showDoor();
  setTimeout(() => {
    arrived = true;
    if (!pressed) return;
    pressed.removeAttribute("aria-busy");
    pressed.click();
    pressed = null;
  }, 50);
}

/** The name of the recording that is shown, or nothing: what is saved is what is shown. */
const lessonShown = () => document.querySelector("draftscope-instrument").guest?.trace || "";

/** Of a sentence about loading its step, what moves first: a phone has room for a few letters. Else the sentence. */
function step(sentence) {
  const said = sentence.match(/Step (\d+) of (\d+)(?:, (\d+ s))?: (.*)/);
  if (!said) return sentence;
  const [, number, all, seconds, doing] = said;
  return `${seconds ? `${seconds}, step` : "Step"} ${number}/${all}: ${doing}`;
}

/** What the engine process says of itself, among the models; in the header their names, or what it is doing. */
export function showEngine(sentence) {
  const [all, names] = [document.querySelector(".ds-engine"), document.querySelector(".ds-loaded")];
  if (!all || !names) return;
  setText(all, sentence);
  const [before, loaded] = sentence.split(", loaded in ");
  let short = before;
  while (/\([^()]*\)/.test(short)) short = short.replace(/ ?\([^()]*\)/, "");
  setText(names, loaded ? short : step(sentence));
  names.parentElement.classList.toggle("ds-ready", Boolean(loaded));
}

let uses = {}; // drafter -> the options it reads, once the engine has said
let able = []; // drafters that can run here
let drafter = ""; // the chosen one
let chosen = {}; // those settings on which the visibility of others depends, as far as they were changed

/**
 * Which options are shown, as updates for the host. Until the engine has said what drafters read: `reads`, those of the
 * first one, and those of the address.
 */
function shown({ names, visibleIf, first, reads }) {
  const now = { ...first, ...chosen };
  drafter = now.drafter;
  const read = uses[now.drafter] || [...reads, ...names.filter((name) => fromAddress(name) !== null)];
  return names.map((name) => ({ __type__: "update", visible: isRead(name, read, now, visibleIf) }));
}

/**
 * A setting on which others depend has changed. Each change comes by itself: events of the host may be out of order.
 */
export function showControls(rules, change) {
  chosen = { ...chosen, ...change };
  return shown(rules);
}

export const draftersAble = () => able;

export const drafterChosen = () => drafter;

/** A message of the host, which may say what each drafter reads. */
export function readEngine(rules, said) {
  const engine = said ? JSON.parse(said) : {};
  uses = engine.uses || uses;
  able = engine.able || able;
  if (engine.instead) giveStandIns(engine.instead);
  return shown(rules);
}

const LONGEST = 6000; // of a query; servers refuse much longer ones

/**
 * Settings -> query string; defaults are left out, except those `named`, so that links stay short, and so is a prompt
 * too long for one.
 */
export function queryOf(names, values, defaults, named = []) {
  const parameters = new URLSearchParams();
  names.forEach((name, i) => {
    const value = values[i];
    if (value === null || value === undefined || (String(value) === String(defaults[i]) && !named.includes(names[i])))
      return;
    parameters.set(name, String(value));
  });
  for (const name of keptInAddress()) if (fromAddress(name)) parameters.set(name, fromAddress(name));
  if (parameters.toString().length > LONGEST) parameters.delete("prompt");
  const text = parameters.toString();
  return text ? `?${text}` : "";
}

/** The address follows the settings of a run that starts. */
export function remember(query) {
  writeAddress(query);
  leavePlace();
}

let controls = null; // setting -> what its control holds, from the moment that a reader changes one

/** A control has changed. What the page sets by itself, before anybody touched it, is not worth a word. */
export function controlsChanged(names, values) {
  setTimeout(fitPrompt); // the page lays the new text out first
  if (!controls && !navigator.userActivation?.hasBeenActive) return;
  controls = Object.fromEntries(names.map((name, i) => [name, values[i]]));
  instrument()?.request();
}

/** Settings that are not those of the lane that is shown, as the page names them. Of plain decoding's lane whose race has
 *  only begun (`drafterUnknown`), the drafter is another one. */
export function settingsChanged(start, drafterUnknown) {
  if (!controls || !start || start.server) return [];
  const had = { prompt: start.prompt, drafter: start.drafter, seed: start.seed, ...start.settings };
  const words = (value) => String(Array.isArray(value) ? value.join(",") : (value ?? "")).replaceAll(" ", "");
  return Object.keys(had)
    .filter((name) => name in controls && !(drafterUnknown && name === "drafter"))
    .filter((name) => words(had[name]) !== words(controls[name]))
    .map((name) => given.labels[name]?.label.split(/[,:]/)[0].toLowerCase() || name);
}

export async function copyLink(query, space, prompt) {
  const taught = teacherQuery(query);
  const teaches = query === taught;
  const { part, too } = teaches ? { part: "", too: 0 } : await instrument().runs.part();
  const left =
    prompt && prompt.length > LONGEST / 3 && !query.includes("prompt=")
      ? " This prompt is too long for a link and is left out."
      : "";
  const local = isOwnMachine() && !space;
  const here = local && given.network ? given.network : location.origin + location.pathname;
  const link = (space ? `https://huggingface.co/spaces/${space}` : here) + query + part;
  const reach = !local ? "" : given.network ? REACH.network : REACH.local;
  const offers = teaches
    ? []
    : [{ text: "Copy a teacher's link: settings fixed, controls hidden", act: () => copyLink(taught, space, prompt) }];
  if (too) offers.unshift({ text: "Save the run as a file to send beside it", act: () => save("trace") });
  const said = (await copied(link)) ? "Link copied." : "This page cannot use the clipboard; copy the link here.";
  const code = local && !given.network ? [] : await callServer("qr", part ? link.slice(0, -part.length) : link);
  say(`${said} ${carried(part, too)}${reach}${left}`, link, offers, code);
}

/** What a link carries. */
const carried = (part, too) =>
  part
    ? "It carries the prompt, the settings and this run itself: whoever opens it sees the run. A code for cameras carries the settings alone."
    : `It carries the prompt and the settings, not the run${too ? `, which is too long for a link (${too} characters)` : ""}: whoever opens it presses Run.`;

const REACH = {
  network: " It has this computer's address on your network, so that others there can open it.",
  local:
    " Nobody else can open it: this page is served to this computer alone. Start it with --host 0.0.0.0 for others.",
};

const isOwnMachine = () => /^(localhost|127(\.\d+){3}|\[::1\])$/.test(location.hostname);

/** What is shown is saved, as a trace ("trace") or as a page that plays by itself ("page"). */
export async function save(kind) {
  const file = await callServer("save", { kind, lesson: lessonShown() });
  if (!file) return;
  if (file.note) {
    say(file.note);
    return;
  }
  saveFile(new Blob([Uint8Array.from(atob(file.data), (c) => c.charCodeAt(0))]), file.name);
  if (kind !== "trace") return;
  const offers = [{ text: "Save as a page that plays offline", act: () => save("page") }];
  say("The run is saved as a trace; open it again with Share, Load run.", "", offers);
}

/** What stands below the composer's row. */
export function unfoldSettings() {
  const open = document.querySelector("#ds-controls").classList.toggle("ds-open");
  document.querySelector("#ds-settings").setAttribute("aria-expanded", String(open));
}

export const flipTheme = () => document.body.classList.toggle("dark");
