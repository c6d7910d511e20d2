// The card of the selected round: which stage it is shown at, and its three faces: tree, attention mask, table.

import { button, cardHead, h, setText } from "../base/dom.js";
import { CUT_WORDS, FATES } from "../base/fates.js";
import { formatProb } from "../base/format.js";
import { isChain } from "../base/numbers.js";
import { STAGES } from "../base/stages.js";
import { explained } from "../base/symbols.js";
import { table, tableRow } from "../draw/tables.js";
import { html, nothing, render } from "../vendor/lit-html.js";
import { annotationWords } from "./annotations.js";
import { MaskFace } from "./mask.js";
import { verifiedLegend } from "./verified.js";
import { TreeView, currentItem, itemWords, itemsOf } from "./tree.js";

const FACES = { tree: "Tree", mask: "Mask", table: "Table" };
const STAGE_WORDS = { draft: "Draft", verify: "Verify", accept: "Accept", commit: "Commit" };
const SHORTEST = 236;
const AROUND = 652; // of a window: what stands above and below the tree on the first screen

const square = (text, label, act) => button(text, act, { class: "small square", "aria-label": label });
const joined = (label, ...buttons) => h("div.joined", { role: "group", "aria-label": label }, ...buttons);

export class RoundView {
  /** `above` stands between head and tree, which leaves it its room; `other` with the buttons below. */
  constructor(actions, above, other) {
    this.above = above;
    this.actions = actions; // { open(slot, key), step(by), stage(by), toStage(name), hide(), showAll(), repaint() }
    this.face = "tree";
    this.title = h("h3");
    this.what = h("p.note");
    this.back = square("◀", "Previous round", () => actions.step(-1));
    this.on = square("▶", "Next round", () => actions.step(1));
    const face = ([name, text]) => [name, button(text, () => this.show(name))];
    this.faces = new Map(Object.entries(FACES).map(face));
    const stage = (name) => [name, button(STAGE_WORDS[name], () => actions.toStage(name))];
    this.stages = new Map(STAGES.map(stage));
    this.hide = button("Hide the result", () => actions.hide());
    this.whole = button("Show the whole round", () => actions.showAll());
    this.tree = new TreeView(actions);
    this.mask = new MaskFace((key) => this.openKey(key));
    this.table = h("div.node-table", { tabindex: "0", role: "group", "aria-label": "Rows of this round" });
    this.legend = h("p.legend");
    this.line = h("p.note.item-line");
    this.notes = h("p.note.notes", { hidden: true });
    const views = h("div.faces", this.tree.root, this.mask.root, this.table);
    this.root = h(
      "section.card.tree",
      cardHead(this.title, this.what, this.stepper()),
      above,
      views,
      this.line,
      this.notes,
      h("div.round-foot", this.legend, h("div.controls", this.hide, this.whole, other, this.views())),
    );
  }

  views() {
    return joined("Views of this round", ...this.faces.values());
  }

  stepper() {
    const back = square("‹", "One stage back", () => this.actions.stage(-1));
    const on = square("›", "One stage forward", () => this.actions.stage(1));
    const stages = joined("Stages of this round", back, ...this.stages.values(), on);
    return h("div.controls.stepper", this.back, this.on, stages);
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
    this.head(selection, round, known, hiding);
    this.whole.classList.toggle("idle", !partial);
    this.root.classList.toggle("blank", !round);
    if (!round) return;
    const lane = selection.lane;
    this.items = itemsOf(lane, round, known);
    const item = currentItem(this.items, selection);
    for (const [face, view] of [
      ["tree", this.tree.root],
      ["mask", this.mask.root],
      ["table", this.table],
    ])
      view.hidden = face !== this.face;
    this.tall = !colours.tall
      ? Math.max(SHORTEST, window.innerHeight - AROUND - this.above.offsetHeight)
      : isChain(lane)
        ? colours.flat
        : colours.tall;
    if (this.face === "tree") this.tree.paint(lane, round, known, selection, narrow, this.tall, colours);
    else if (this.face === "mask")
      this.mask.paint(
        this.items,
        known.drafted ? round.nodes : [],
        item,
        { width: this.root.clientWidth - 32, height: Math.max(260, this.tall) },
        colours,
      );
    else this.list(item);
    setText(this.line, itemWords(item));
    const notes = known.result ? annotationWords(round) : "";
    this.notes.hidden = !notes;
    setText(this.notes, notes);
    this.fates(known.result ? verifiedLegend(round) : "");
  }

  head(selection, round, known, hiding) {
    setText(
      this.title,
      round
        ? `Round ${round.index + 1}${selection.lane.end ? ` of ${selection.lane.rounds.length}` : ""}`
        : "The round",
    );
    setText(this.what, round ? roundWords(round, known) : "nothing decoded yet at this time");
    this.back.disabled = !round || selection.round === 0;
    this.on.disabled = !round || selection.round + 1 >= selection.lane.rounds.length;
    for (const [face, toggle] of this.faces) toggle.setAttribute("aria-pressed", String(face === this.face));
    for (const [stage, toggle] of this.stages) {
      toggle.setAttribute("aria-pressed", String(Boolean(round) && known.stage === stage));
      toggle.disabled = !round || (stage === "draft" && !round.nodes.length);
    }
    this.hide.setAttribute("aria-pressed", String(hiding));
  }

  /** The glyphs that this round uses, so that the legend explains what is seen and nothing else. */
  fates(test) {
    const present = Object.keys(FATES).filter(
      (fate) => FATES[fate].glyph && this.items.some((item) => item.fate === fate),
    );
    const key = (fate) =>
      html`<span class="key"
        ><span class="glyph ${fate}" aria-hidden="true">${FATES[fate].glyph}</span> ${FATES[fate].word}</span
      >`;
    const view = html`
      ${present.map(key)}
      <span class="key">${explained("p of the target, q of the draft")}</span>
      ${test ? html`<span class="key test">${explained(test)}</span>` : nothing}
    `;
    render(view, this.legend);
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
    render(table(heads.map(explained), rows), this.table);
  }
}

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
