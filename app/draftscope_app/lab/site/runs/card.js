// What stands in for a server: the recorded run that is shown, chosen by its text, drafter and temperature, and the
// files that answer where the page asks for a lesson or an exhibit.

import { fromAddress, setInAddress } from "../../../base/address.js";
import { h } from "../../../base/dom.js";
import { shorten } from "../../../base/format.js";
import { given } from "../../../base/given.js";
import { connect, receive } from "../../../base/host.js";
import { choice } from "../../../base/templates.js";
import { doorNow } from "../../../host/doors.js";
import { flipTheme } from "../../../host/page.js";
import { html, render } from "../../../vendor/lit-html.js";
import sheet from "./card.css" with { type: "css" };
import { readFile } from "./files.js";

const WITH_RUN = ["watch", "decide"]; // doors that are about the chosen run
const SAME = [["prompt", "target"], ["drafter"], ["temperature"]]; // what a reader chooses, one after the other

class Runs {
  constructor() {
    this.root = h("div.controls.recorded-runs", { role: "group", "aria-label": "Recorded run" });
    this.number = 0; // of the runs that were shown
    connect({ events: [], trigger: () => {}, server: functions() });
    if (window.matchMedia("(prefers-color-scheme: dark)").matches) document.body.classList.add("dark");
    document.getElementById("ds-theme").addEventListener("click", flipTheme);
    document.querySelector(".ds-skip").addEventListener("click", () => this.root.getRootNode().host?.main.focus());
    Promise.resolve().then(() => this.open()); // once the other cards are there
  }

  /** The run that the address names, then whatever else it names. */
  async open() {
    const named = given.runs.find(({ name }) => name === fromAddress("run"));
    if (doorNow() !== "servers") await this.show(named || given.runs[0]);
    receive(JSON.stringify({ arrived: true, titles: given.titles }));
  }

  async show(run) {
    if (!run) return;
    this.run = run;
    this.draw();
    const events = await readFile(`run/${run.name}`);
    if (events === undefined || this.run !== run) return;
    this.number += 1;
    receive(deltaOf(this.number, events));
  }

  choose(run) {
    setInAddress({ run: run.name, round: null, node: null, stage: null });
    for (const link of document.querySelectorAll("nav a")) link.search = `?run=${run.name}`;
    this.show(run);
  }

  draw() {
    this.root.hidden = !WITH_RUN.includes(doorNow());
    const [texts, drafters, temperatures] = SAME.map((_, level) => this.options(level));
    const view = html`
      <label class="stated"
        >Text ${this.list("Text", texts, ({ prompt, target }) => `${shorten(prompt, 32)} · ${target}`)}</label
      >
      <label class="stated">Drafter ${this.list("Drafter", drafters, ({ title }) => title)}</label>
      <label class="stated"
        >Temperature ${this.list("Temperature", temperatures, ({ temperature }) => temperature)}</label
      >
    `;
    render(view, this.root);
  }

  list(label, options, words) {
    const chosen = options.find((one) => sameIn(one, this.run, SAME.flat().length)) || options[0];
    const pick = (name) => this.choose(given.runs.find((run) => run.name === name));
    const pairs = options.map((run) => [run.name, words(run)]);
    return choice(label, pairs, chosen.name, pick);
  }

  /** Runs that differ at this level and agree with the shown one above it; below it as far as there are such. */
  options(level) {
    const above = SAME.slice(0, level).flat();
    const rows = given.runs.filter((run) => above.every((field) => run[field] === this.run[field]));
    const groups = Map.groupBy(rows, (run) => JSON.stringify(SAME[level].map((field) => run[field])));
    return [...groups.values()].map((group) => closest(group, this.run));
  }
}

const agreement = (a, b) => SAME.flat().filter((field) => a[field] === b[field]).length;
const sameIn = (a, b, count) => agreement(a, b) === count;
const closest = (group, run) => group.reduce((best, one) => (agreement(one, run) > agreement(best, run) ? one : best));

const deltaOf = (number, events) =>
  `{"seq": 0, "run": "r${number}", "source": "recorded", "state": "done", "ev": [${events}]}`;

/** A server's functions, by name: a file for each question. A text is never given twice as it was, because the page
 *  takes what it has just heard for the same message. */
function functions() {
  const names = new Set(given.answers.map((path) => path.split("/")[1]));
  let calls = 0;
  const answer = (name) => async (question) => {
    const parts = ["answer", name, typeof question === "string" ? question : ""];
    const text = await readFile(parts.filter(Boolean).join("/"));
    const reply = text && JSON.parse(text);
    calls += 1;
    return typeof reply === "string" ? reply + " ".repeat(calls) : reply;
  };
  return Object.fromEntries([...names].map((name) => [name, answer(name)]));
}

export const card = { area: "top", place: "run", sheet, make: () => new Runs() };
