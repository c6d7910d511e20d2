// The card of the selected round: which stage it is shown at, and its three faces: tree, attention mask, table.

import { h } from "../base/dom.js";
import { CUT_WORDS, FATES } from "../base/fates.js";
import { formatProb } from "../base/format.js";
import { isChain } from "../base/numbers.js";
import { STAGES } from "../base/stages.js";
import { explained, explainedWords } from "../base/symbols.js";
import { cardHead } from "../base/templates.js";
import { table, tableRow } from "../draw/tables.js";
import { html, nothing, render } from "../vendor/lit-html.js";
import { annotationWords } from "./annotations.js";
import { MaskFace } from "./mask.js";
import { verifiedLegend } from "./verified.js";
import { TreeView, currentItem, itemWords, itemsOf } from "./tree.js";

const FACES = { tree: "Tree", mask: "Mask", table: "Table" };
const STAGE_WORDS = { draft: "Draft", verify: "Verify", accept: "Accept", commit: "Commit" };

const square = (sign, label, act, disabled = false) =>
  html`<button class="small square" type="button" aria-label=${label} ?disabled=${disabled} @click=${act}>
    ${sign}
  </button>`;

const toggle = (words, pressed, act, disabled = false) =>
  html`<button class="small" type="button" aria-pressed=${pressed} ?disabled=${disabled} @click=${act}>
    ${words}
  </button>`;

const joined = (label, buttons) => html`<div class="joined" role="group" aria-label=${label}>${buttons}</div>`;

export class RoundView {
  /** `steps` stand between head and tree, which leaves them their room, or where it is narrow below it; `other` with the
   *  buttons below. */
  constructor(actions, steps, other) {
    this.steps = steps;
    this.other = other;
    this.actions = actions; // { open(slot, key), step(by), stage(by), toStage(name), hide(), showAll(), repaint() }
    this.face = "tree";
    this.items = [];
    this.tree = new TreeView(actions);
    this.mask = new MaskFace((key) => this.openKey(key));
    this.root = h("section.card.tree");
    this.draw(null, {}, {});
  }

  show(face) {
    this.face = face;
    this.actions.repaint();
  }

  openKey(key) {
    const item = this.items.find((i) => i.key === key);
    this.actions.open(item.key === -1 ? -1 : item.slot, item.key);
  }

  /** `hiding` and `partial` say how much of the round its reader sees. */
  paint(selection, known, narrow, { hiding, partial }, colours) {
    const round = selection && selection.lane.rounds[selection.round];
    this.root.classList.toggle("blank", !round);
    if (round) this.items = itemsOf(selection.lane, round, known);
    this.tree.root.hidden = this.face !== "tree";
    this.mask.root.hidden = this.face !== "mask";
    this.draw(selection, known, { hiding, partial, narrow });
    if (!round) return;
    this.tall = !colours.tall ? this.room : isChain(selection.lane) ? colours.flat : colours.tall;
    if (this.face === "tree") this.tree.paint(selection.lane, round, known, selection, narrow, this.tall, colours);
    else if (this.face === "mask")
      this.mask.paint(
        this.items,
        known.drafted ? round.nodes : [],
        currentItem(this.items, selection),
        { width: this.root.clientWidth - 32, height: this.tall },
        colours,
      );
  }

  /** What the card, whose height is fixed, leaves to its face. */
  get room() {
    return this.root.querySelector(".faces").clientHeight;
  }

  /** Everything but tree and mask, which draw themselves. */
  draw(selection, known, { hiding, partial, narrow }) {
    const round = selection?.lane.rounds[selection.round];
    const { hide, showAll } = this.actions;
    const item = round && currentItem(this.items, selection);
    const said = round ? roundWords(round, known) : "nothing decoded yet at this time";
    const stepper = html`<div class="controls stepper">${this.stepper(selection, round, known)}</div>`;
    const notes = round && known.result ? annotationWords(round) : "";
    const faces = Object.entries(FACES).map(([face, words]) =>
      toggle(words, face === this.face, () => this.show(face)),
    );
    const view = html`
      ${cardHead(titleOf(selection, round), said, stepper)} ${narrow ? nothing : this.steps}
      <div class="faces">
        ${this.tree.root}${this.mask.root}
        <div
          class="node-table"
          tabindex="0"
          role="group"
          aria-label="Rows of this round"
          ?hidden=${this.face !== "table"}
        >
          ${round && this.face === "table" ? this.list(item) : nothing}
        </div>
      </div>
      <p class="note item-line">${round ? itemWords(item) : ""}</p>
      <p class="note notes" ?hidden=${!notes}>${notes}</p>
      ${narrow ? this.steps : nothing}
      <div class="round-foot">
        <p class="legend">${round ? this.fates(known.result ? verifiedLegend(round) : "") : nothing}</p>
        <div class="controls">
          ${toggle("Hide the result", Boolean(hiding), hide)}
          <button class="small ${partial ? "" : "idle"}" type="button" @click=${showAll}>Show the whole round</button>
          ${this.other} ${joined("Views of this round", faces)}
        </div>
      </div>
    `;
    render(view, this.root);
  }

  stepper(selection, round, known) {
    const { step, stage, toStage } = this.actions;
    const stages = STAGES.map((name) => {
      const barred = !round || (name === "draft" && !round.nodes.length);
      return toggle(STAGE_WORDS[name], Boolean(round) && known.stage === name, () => toStage(name), barred);
    });
    return [
      square("◀", "Previous round", () => step(-1), !round || selection.round === 0),
      square("▶", "Next round", () => step(1), !round || selection.round + 1 >= selection.lane.rounds.length),
      joined("Stages of this round", [
        square("‹", "One stage back", () => stage(-1)),
        stages,
        square("›", "One stage forward", () => stage(1)),
      ]),
    ];
  }

  /** The glyphs that this round uses, so that the legend explains what is seen and nothing else. */
  fates(test) {
    const present = Object.keys(FATES).filter(
      (fate) => FATES[fate].glyph && this.items.some((item) => item.fate === fate),
    );
    const key = (fate) =>
      html`<span class="key"
        ><span class="glyph ${fate}" aria-hidden="true">${FATES[fate].glyph}</span>
        ${explainedWords(FATES[fate].word)}</span
      >`;
    return html`
      ${present.map(key)}
      <span class="key">${explained("p of the target, q of the draft")}</span>
      ${test ? html`<span class="key test">${explained(test)}</span>` : nothing}
    `;
  }

  list(chosen) {
    const prob = (x) => (x === null || x === undefined ? "–" : formatProb(x));
    const at = new Map(this.items.map((item, i) => [item.key, i + 1]));
    const cells = (item, i) => [
      item.key === "last" ? "" : i + 1,
      html`<button class="link" type="button" @click=${() => this.openKey(item.key)}>${item.label}</button>`,
      item.parent === null ? "" : (at.get(item.parent) ?? ""),
      item.depth ?? "",
      (item.node ? item.node.origin : item.note) ?? "",
      prob(item.p),
      prob(item.q),
      item.fate === "root" ? "" : `${FATES[item.fate].glyph} ${item.dropped ? "discarded" : FATES[item.fate].word}`,
    ];
    const heads = ["row", "token", "parent row", "depth", "drafted by", "p", "q", "fate"];
    const rows = this.items.map((item, i) => tableRow(cells(item, i), 1, item === chosen ? "sel" : ""));
    return table(heads.map(explained), rows);
  }
}

const titleOf = (selection, round) =>
  round ? `Round ${round.index + 1}${selection.lane.end ? ` of ${selection.lane.rounds.length}` : ""}` : "The round";

function roundWords(round, known) {
  if (!round.nodes.length) return known.committed ? "no draft: the target's own token" : "no draft";
  if (!known.drafted) return "drafting";
  const parts = [`${round.drafted} drafted`];
  if (known.result) {
    parts.push(`${round.accepted} accepted`);
    if (round.emitted.length > round.accepted) parts.push(`1 ${round.last.kind}`);
    if (round.cut) parts.push(CUT_WORDS[round.cut]);
  }
  if (known.verified) parts.push("checked in one pass");
  return parts.join(" · ");
}
