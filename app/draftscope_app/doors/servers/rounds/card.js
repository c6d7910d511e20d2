// The log of an engine that a visitor chooses, or drops here: what it says about its rounds, and what it does not.

import { callServer, hostAnswers, say } from "../../../base/host.js";
import { newestOf } from "../../../base/order.js";
import { smallButton } from "../../../base/templates.js";
import { shareCurve } from "../../../draw/share-curve.js";
import { scrollable, table } from "../../../draw/tables.js";
import { html, nothing } from "../../../vendor/lit-html.js";
import sheet from "./card.css" with { type: "css" };

const WHAT =
  "A log of rounds (draftscope.log), a log or a /metrics page of vLLM or SGLang, or answers of vLLM, SGLang, llama.cpp or AIPerf in JSON. It is read here and not kept.";
const MOST = 400_000; // characters that are sent; a page takes a little more
const READ = 32 * 2 ** 20; // bytes of a file that are looked at
const SAYS = /accept|draft|spec_|timings|meta_info/;

class RoundsView {
  constructor({ request }) {
    this.repaint = request;
    this.shown = null; // what the log says, with the name of its file
    this.newest = newestOf(); // of the files that are read
    this.seen = -1; // the point of its course that is looked at
  }

  /** In the list of servers, which need not have one. */
  invitation() {
    if (!hostAnswers("logged_rounds"))
      return html`<p class="sum">
        Where Draftscope is installed, <code>draftscope rounds FILE</code> says what the log of an engine holds.
      </p>`;
    return html`<section
      class="audit"
      aria-label="The log of an engine"
      @dragover=${(event) => event.preventDefault()}
      @drop=${(event) => this.drop(event)}
    >
      <header class="card-head wrap">
        <h2>The log of an engine</h2>
        <div class="controls">
          ${smallButton("Choose a log", () => this.choose())}
          ${this.shown ? smallButton("Close", () => this.close()) : nothing}
        </div>
      </header>
      <p class="sum">${WHAT}</p>
      ${this.shown ? this.said(this.shown) : nothing}
    </section>`;
  }

  /** What the log says over its time beside what it says in all. */
  said(shown) {
    return html`<p class="verdict">${shown.name}</p>
      <p class="sum">${wordsOf(shown)}</p>
      <div class="logged">
        <div>${this.course(shown)}</div>
        <div>${tablesOf(shown)}</div>
      </div>`;
  }

  choose() {
    const input = document.createElement("input");
    input.type = "file";
    input.addEventListener("change", () => this.open(input.files[0]));
    input.click();
  }

  drop(event) {
    event.preventDefault();
    this.open(event.dataTransfer.files[0]);
  }

  async open(file) {
    const reply = file && (await this.newest(read(file)));
    if (!reply) return;
    if (reply.note) say(reply.note);
    else this.set(reply);
  }

  /** A file that is still read stays closed. */
  close() {
    this.newest(null);
    this.set(null);
  }

  set(shown) {
    this.shown = shown;
    this.seen = -1;
    this.repaint();
  }

  /** Acceptance over the log, and the words of the point that is chosen; of the worst one, where none was. */
  course({ course, alarm }) {
    const points = course?.points ?? [];
    const worst = points.reduce((least, point, i) => (point.y < points[least].y ? i : least), 0);
    const at = this.seen < 0 ? worst : this.seen;
    const choose = (i) => {
      this.seen = i;
      this.repaint();
    };
    return html`${alarm ? html`<p class="alarm" role="status">${alarm}</p>` : nothing}
    ${
      points.length
        ? html`${shareCurve({
              legend: `${course.title}: kept of the drafted tokens.`,
              points,
              span: [points[0].x, points.at(-1).x],
              axis: course.axis,
              slider: "Part of the log",
              at,
              choose,
            })}
            <p class="sum">
              ${this.seen < 0 ? "Least was kept in " : "In "}${points[at].words}. ${course.sentences.join(" ")}
            </p>`
        : nothing
    }`;
  }
}

/** What the host says of a file, with its name. */
async function read(file) {
  const { text, cut } = fitting(await file.slice(0, READ).text(), file.size > READ);
  const reply = await callServer("logged_rounds", { name: file.name, text });
  return reply && { ...reply, name: file.name, cut };
}

/** The text, or of a long one the lines that can say something, from the first on; `cut` where some are left out. */
function fitting(text, cut) {
  if (text.length <= MOST) return { text, cut };
  const lines = text.split("\n").filter((line) => SAYS.test(line) && line.length < MOST);
  let length = 0;
  const kept = lines.filter((line) => (length += line.length + 1) <= MOST);
  return { text: kept.join("\n"), cut: cut || kept.length < lines.length };
}

const CUT = "The file is too long for a page: this is of its beginning. “draftscope rounds FILE” reads it all.";

const wordsOf = ({ said, unknown, notes, cut }) => [said, unknown, ...notes, cut ? CUT : ""].filter(Boolean).join(" ");

const tablesOf = ({ rows, heads, positions }) => html`
  ${scrollable("Rounds of the log", table(["of the log", "value"], rows))}
  ${positions.length ? scrollable("Acceptance by position", table(heads, positions)) : nothing}
`;

export const card = { area: "servers", door: "servers", sheet, make: (page) => new RoundsView(page) };
