// All that may be called from outside: by the page's listeners, by an exported file. Nothing else is reachable.

import { give } from "../base/given.js";
import { askHost, attempted, connect, fetchRest, receive } from "../base/host.js";
import { explainIn } from "../base/symbols.js";
import { exampled, openedOn, preset } from "../base/models.js";
import { fitComposer } from "./composer.js";
import { openDoors } from "./doors.js";
import { openDropped } from "./dropped.js";
import { Instrument } from "./element.js";
import { closeLeftLists } from "./lists.js";
import {
  controlsChanged,
  copyLink,
  flipTheme,
  holdPresses,
  queryOf,
  readEngine,
  remember,
  save,
  showControls,
  unfoldSettings,
} from "./page.js";
import { playAlone } from "./player.js";
import { openTab } from "./tab.js";
import { markTeaching } from "./teach.js";

const repaint = () => document.querySelector("draftscope-instrument")?.request();

/** Called once, by the script itself, with what the page hands over (base/given.js). */
function start(values) {
  give(values);
  markTeaching();
  holdPresses();
  fitComposer();
  openDropped();
  closeLeftLists();
  openTab();
  openDoors();
  customElements.define("draftscope-instrument", Instrument);
}

export const Draftscope = {
  start,
  give,
  playAlone,
  flipTheme,
  save,
  connect,
  receive,
  fetchRest,
  repaint,
  explain: explainIn,
  ask: askHost,
  attempted,
  example: exampled, // between the page and the instrument
  query: queryOf,
  remember,
  copyLink, // the address
  show: showControls,
  changed: controlsChanged,
  readEngine,
  opened: openedOn,
  preset,
  unfoldSettings, // the controls
};
