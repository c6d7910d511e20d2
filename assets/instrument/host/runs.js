// The last runs of this tab, each kept as the file that Share, Save run would make of it: to go back to, to compare by, and
// for a link that carries the run itself.

import { draftLane, isFinished, plainLane, raceClock, speculates } from "../base/store.js";
import { packed } from "../base/unpack.js";
import { speedup } from "../run/speed.js";
import { laneTitle } from "../run/titles.js";
import { openFile } from "./dropped.js";

const MOST = 10;
const LONGEST = 30000; // characters of a run in a link, which every browser opens

export class Runs {
  constructor() {
    this.kept = []; // the latest first
    this.lines = [];
  }

  /** Another run begins. */
  begin() {
    this.lines = [];
  }

  /** Its events, before they are folded. */
  hear(events) {
    for (const event of events) this.lines.push(JSON.stringify(event));
  }

  /** The run that is shown has said all that it will: kept, unless it was itself opened from a file. */
  async over(store) {
    if (store.source !== "live" || !isFinished(store) || this.kept.some(({ run }) => run === store.run)) return;
    this.kept = [about(store), ...this.kept].slice(0, MOST);
    this.kept[0].text = await packed(this.text);
  }

  get text() {
    return this.lines.map((line) => `${line}\n`).join("");
  }

  /** Shows an earlier one again, as if its file had been loaded. */
  async back(run) {
    const text = this.kept.find((kept) => kept.run === run)?.text;
    if (text) openFile(fileOf(text));
  }

  /** The median speedup of this tab's whole runs with that drafter: {ratio, runs}; null without one. */
  gain(drafter) {
    const ratios = this.kept.filter((kept) => kept.drafter === drafter && kept.ratio).map(({ ratio }) => ratio);
    ratios.sort((a, b) => a - b);
    return ratios.length ? { ratio: ratios[Math.floor(ratios.length / 2)], runs: ratios.length } : null;
  }

  /** The run that is shown as a part of a link; `too` is its length where that is too long, and 0 where there is none. */
  async part() {
    if (!this.lines.length) return { part: "", too: 0 };
    const text = (await packed(this.text)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
    return text.length > LONGEST ? { part: "", too: text.length } : { part: `${MARK}${text}`, too: 0 };
  }
}

const MARK = "#run=";

/** The address carries a run. */
export const carriesRun = () => location.hash.startsWith(MARK);

/** Opens the run of the address, once; `failed` is called where it is none. */
export function openCarried(failed) {
  const text = location.hash.slice(MARK.length).replaceAll("-", "+").replaceAll("_", "/");
  history.replaceState(null, "", location.pathname + location.search);
  try {
    openFile(fileOf(text));
  } catch {
    failed();
  }
}

const fileOf = (text) =>
  new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], "run.jsonl.gz", { type: "application/gzip" });

/** What its line in the list says of a run. */
function about(store) {
  const [draft, plain] = [draftLane(store), plainLane(store)];
  const lane = draft || store.lanes[0];
  const speed = draft && plain && speculates(draft) ? speedup(draft, plain, raceClock(store)) : {};
  const ratio = Number.isFinite(speed.ratio) ? speed.ratio : 0;
  const { drafter, prompt = "", settings = {} } = lane.start || {};
  const words = `${laneTitle(lane)} · T ${settings.temperature ?? 0} · ${prompt.slice(0, 40)}`;
  return { run: store.run, drafter, ratio, words: ratio ? `${ratio.toFixed(2)}× · ${words}` : words };
}
