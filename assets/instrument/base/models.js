// What depends on the models that the engine has: prompts, examples, and drafters that stand in for others.

import { fromAddress } from "./address.js";
import { given } from "./given.js";

let standIns = {}; // drafter that cannot run here -> one that can

export function giveStandIns(replacements) {
  standIns = replacements;
}

/** The host's controls with other settings; in place of a drafter that cannot run here, one that can. */
export function withSettings(names, values, settings) {
  const set = { ...settings, drafter: standIns[settings.drafter] || settings.drafter };
  return values.map((value, i) => set[names[i]] ?? value);
}

/**
 * Once the engine has said whether its target answers in a chat: where that is not what the page opened with, controls
 * that were left as they were get the other settings. `first` are both: [for a text, for a chat].
 */
export function openedOn(names, message, values, first) {
  const chat = (message ? JSON.parse(message) : {}).chat ?? given.chat;
  const [was, now] = [first[+given.chat], first[+chat]];
  given.chat = chat;
  return names.map((name, i) => {
    const left = name !== "drafter" && String(values[i]) === String(was[name]) && fromAddress(name) === null;
    return left && now[name] !== was[name] ? { __type__: "update", value: now[name] } : { __type__: "update" };
  });
}

/** The host's controls, with an example's settings: [for a text, for a chat]. */
export const exampled = (names, values, examples) => withSettings(names, values, examples[+given.chat]);

/** The next prompt of a kind: pressing a kind again goes on to its next one. */
export function preset(kind, current) {
  const prompts = given.presets[given.chat ? "chat" : "text"][kind];
  return prompts[(prompts.indexOf(current) + 1) % prompts.length];
}
