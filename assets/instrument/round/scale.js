// The round to scale: what its milliseconds went into, on one ruler with the plain steps that the same tokens need.
//
// The round's widths are its own measured times. The plain row repeats the plain lane's measured mean step once for
// each token that the round wrote; the label says so. A block of the round, clicked, lights the nodes it worked on.

import { h } from "../base/dom.js";
import { counted, formatMs } from "../base/format.js";
import { isInside, meanRound, plainLane } from "../base/store.js";
import { cardHead } from "../base/templates.js";
import { html, nothing, render } from "../vendor/lit-html.js";

const OTHER = "accept, commit, host and other";

export class ScaleView {
  constructor(actions) {
    this.actions = actions; // { light(keys) }
    this.root = h("section.card.scale");
    this.paint();
  }

  paint(store, selection, known) {
    const round = selection && selection.lane.rounds[selection.round];
    const view = html`
      ${cardHead("Time of this round", "measured milliseconds, one scale for both bars")}
      <div class="scale-body">${round ? this.rows(round, selection.lane, plainLane(store), known) : nothing}</div>
    `;
    render(view, this.root);
  }

  rows(round, lane, plain, known) {
    const mean = meanRound(plain);
    const parts = partsOf(round, known);
    const spent = parts.reduce((sum, part) => sum + part.ms, 0);
    const tokens = round.emitted.length;
    const compared = known.committed && plain && plain !== lane && Number.isFinite(mean) && tokens > 0;
    const ruler = Math.max(spent, compared ? mean * tokens : 0) || 1;
    const plainWords = `${tokens} × ${formatMs(mean)} = ${formatMs(mean * tokens)} (mean plain step)`;
    const words = wordsOf(parts, spent, isInside(lane) ? "between the steps, drafting included," : OTHER);
    const name = known.committed ? `this round, ${counted(tokens, "token")}` : "this round so far";
    const light = (part) => this.actions.light(part.nodes);
    return html`
      ${compared ? scaleRow(`plain, ${counted(tokens, "token")}`, steps(mean, tokens), ruler, plainWords) : nothing}
      ${parts.length ? scaleRow(name, parts, ruler, words, light) : nothing}
      ${
        known.committed
          ? result(compared, spent, mean * tokens, tokens)
          : html`<p class="sum">Shown up to ${known.stage || "its start"}.</p>`
      }
    `;
  }
}

function partsOf(round, known) {
  const t = round.timings;
  const last = t.propose.length - 1;
  const of = (test) => round.nodes.filter(test).map((n) => n.id);
  const all = of(() => true);
  const other = (ms, words, nodes) => ({ ms, kind: "other", words, nodes });
  const parts = known.drafted
    ? t.propose.map((ms, i) =>
        i === last
          ? other(ms, "other drafting work", all)
          : { ms, kind: "draft", words: `draft step ${i + 1}`, nodes: draftedBy(round, i, last) },
      )
    : [];
  const read = `target, ${counted(round.width, "token")}${round.width > 1 ? " at once" : ""}`;
  if (known.verified)
    parts.push({ ms: t.verify, kind: "verify", words: read, label: `${read} · ${formatMs(t.verify)}`, nodes: all });
  if (known.result)
    parts.push(
      other(
        t.accept,
        "accept",
        of((n) => n.fate === "accepted" || n.fate === "rejected"),
      ),
    );
  if (known.committed)
    parts.push(
      other(
        t.commit,
        "commit",
        of((n) => n.fate === "accepted"),
      ),
      other(t.host, "host", []),
    );
  return parts.filter((part) => part.ms > 0);
}

/** The nodes of one draft forward: a level each where there are as many forwards as levels, else all of them. */
function draftedBy(round, step, forwards) {
  const deepest = Math.max(0, ...round.nodes.map((n) => n.depth));
  return round.nodes.filter((n) => forwards !== deepest || n.depth === step + 1).map((n) => n.id);
}

function steps(mean, tokens) {
  return Array.from({ length: tokens }, () => ({
    ms: mean,
    kind: "verify",
    words: "mean plain step",
    label: "target, 1 token",
  }));
}

export function scaleRow(name, parts, ruler, words, light) {
  const spent = parts.reduce((sum, part) => sum + part.ms, 0);
  const block = (part) => {
    const said = `${part.words}: ${formatMs(part.ms)}`;
    const grow = `flex-grow: ${part.ms / spent}`;
    const label =
      part.label && part.ms / ruler > 0.1
        ? html`<span>${part.ms / ruler > 0.34 ? part.label : "target"}</span>`
        : nothing;
    if (!light) return html`<i class=${part.kind} style=${grow} title=${said}>${label}</i>`;
    return html`<button
      class=${part.kind}
      type="button"
      style=${grow}
      title=${said}
      aria-label=${said}
      @click=${() => light(part)}
    >
      ${label}
    </button>`;
  };
  return html`<div class="scale-row">
    <span class="scale-name">${name}</span>
    <div>
      <div
        class="scale-bar"
        role=${light ? "group" : "img"}
        aria-label="${name}: ${words}"
        style="width: ${(100 * spent) / ruler}%"
      >
        ${parts.map(block)}
      </div>
    </div>
    <span class="scale-words">${words}</span>
  </div>`;
}

/** The proposing of a round alone. */
export const proposeParts = (round) => partsOf(round, { drafted: true });

function wordsOf(parts, spent, other) {
  const sum = (kind) => parts.filter((part) => part.kind === kind).reduce((total, part) => total + part.ms, 0);
  const drafts = parts.filter((part) => part.kind === "draft").length;
  const list = [];
  if (drafts) list.push(`${counted(drafts, "draft step")} ${formatMs(sum("draft"))}`);
  if (sum("verify")) list.push(`target ${formatMs(sum("verify"))}`);
  list.push(`${other} ${formatMs(sum("other"))}`);
  return `${formatMs(spent)}: ${list.join(" + ")}`;
}

function result(compared, spent, plain, tokens) {
  if (!compared) return html`<p class="sum"></p>`;
  const saved = plain - spent;
  const what = saved > 0 ? `saved ${formatMs(saved)}` : `cost ${formatMs(-saved)} more than plain decoding`;
  return html`<p class="sum">
    <b>${formatMs(spent)} instead of ${formatMs(plain)}</b> for ${counted(tokens, "token")}: this round ${what}.
  </p>`;
}
