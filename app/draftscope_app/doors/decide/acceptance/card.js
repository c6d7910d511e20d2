// Acceptance over time: of long runs, one picture over the text, one by depth, and what the mean does not say.

import { h } from "../../../base/dom.js";
import { counted, formatFixed, shorten, visible } from "../../../base/format.js";
import { costsOf, isChain } from "../../../base/numbers.js";
import { draftLane, isServer, plainLane, stateAt } from "../../../base/store.js";
import { shareCurve } from "../../../draw/share-curve.js";
import { html, nothing, render } from "../../../vendor/lit-html.js";
import { afterGuess, alarm, bestLength, byLength, windows } from "./over-time.js";
import sheet from "./card.css" with { type: "css" };

const SHORT = 8; // rounds, below which there is nothing over time
const WHY = {
  nothing: "Nearly nothing is kept: the drafter does not know this target, or reads another template.",
  all: "Nearly everything is kept: the text repeats itself.",
};

class Acceptance {
  constructor(page) {
    this.select = (lane, round) => page.cursor.select(lane, round);
    this.repaint = page.request;
    this.root = h("div.over-time");
    this.seen = null; // the window that is looked at
  }

  paint({ store, now }) {
    const lane = draftLane(store);
    const rounds = lane && !isServer(lane) ? lane.rounds.slice(0, stateAt(lane, now).rounds) : [];
    if (rounds.length < SHORT) {
      render(
        html`<p>Acceptance over time needs ${SHORT} rounds with drafts; press Run, or wait for more.</p>`,
        this.root,
      );
      return;
    }
    const parts = windows(rounds);
    render(
      html`${this.alarmed(rounds)}
        <div class="two">
          <div>${this.picture(lane, rounds, parts)} ${this.beside(lane, rounds, parts)}</div>
          ${depths(rounds)}
        </div>
        <p>${dependence(afterGuess(rounds))}</p>
        ${isChain(lane) ? html`<p>${lengths(rounds, costsOf(lane, plainLane(store)))}</p>` : nothing}`,
      this.root,
    );
  }

  alarmed(rounds) {
    const which = alarm(rounds);
    return which ? html`<p class="alarm" role="status">${WHY[which]}</p>` : nothing;
  }

  /** Share of the drafted tokens that was kept, over the tokens of the text. A window is chosen by its point. */
  picture(lane, rounds, parts) {
    const points = parts.filter((part) => part.drafted).map((part) => ({ ...part, ...placed(part, rounds) }));
    return shareCurve({
      legend: `Kept of the drafted tokens, over the text. A point is ${counted(parts[0].rounds, "round")}.`,
      points,
      span: [0, rounds.at(-1).tokensAfter],
      axis: "tokens of the text",
      slider: "Part of the text",
      at: points.findIndex((point) => point.first === this.seen),
      choose: (i) => {
        this.seen = points[i].first;
        this.select(lane, rounds[this.seen].index);
        this.repaint();
      },
    });
  }

  /** The text of the chosen window; of the worst one, where none was chosen. */
  beside(lane, rounds, parts) {
    const drafting = parts.filter((part) => part.drafted);
    const worst = drafting.reduce((a, b) => (b.accepted / b.drafted < a.accepted / a.drafted ? b : a), drafting[0]);
    const part = parts.find((window) => window.first === this.seen) || worst;
    if (!part) return nothing;
    const [first, last] = [rounds[part.first], rounds[part.first + part.rounds - 1]];
    const text = lane.tokens.slice(first.firstToken, last.tokensAfter).map((token) => token.text);
    const which = part === worst && this.seen === null ? "Least was kept in" : "In";
    return html`<p>
      ${which} rounds ${first.index + 1} to ${last.index + 1} (${part.accepted} of ${part.drafted} kept):
      <q class="mono" dir="auto">${shorten(visible(text.join("")), 160)}</q>
    </p>`;
  }
}

const placed = (part, rounds) => ({
  x: (rounds[part.first].firstToken + rounds[part.first + part.rounds - 1].tokensAfter) / 2,
  y: part.accepted / part.drafted,
});

/** Of the guesses at a depth that were judged, those that were kept. */
function depths(rounds) {
  const most = Math.max(...rounds.map((round) => round.depth));
  const row = (_, i) => {
    const judged = rounds.filter((round) => round.depth > i && round.accepted >= i);
    const kept = judged.filter((round) => round.accepted > i).length;
    return { depth: i + 1, judged: judged.length, kept, share: judged.length ? kept / judged.length : 0 };
  };
  return html`<div>
    <p class="legend">Kept by depth, of the guesses that were judged there</p>
    <table aria-label="Kept by depth">
      <tbody>
        ${Array.from({ length: most }, row).map(
          ({ depth, judged, kept, share }) =>
            html`<tr>
              <th scope="row">${depth}</th>
              <td><i class="share" style=${`width:${100 * share}%`}></i></td>
              <td>${kept} of ${judged}</td>
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function dependence(after) {
  const { ofKept, afterKept, ofRefused, afterRefused, dependent } = after;
  if (!afterKept || !afterRefused) return "All guesses ended alike so far.";
  const shares = `After a kept guess ${ofKept} of ${afterKept} are kept, after a refused one ${ofRefused} of ${afterRefused}`;
  return dependent
    ? `${shares}: guesses are not independent, so the mean alone misjudges long drafts.`
    : `${shares}: too alike to say that guesses depend on the one before.`;
}

/** What drafts of each length would write, and which pays best, by the rounds and by the mean. */
function lengths(rounds, costs) {
  const rows = byLength(rounds);
  const last = rows.at(-1);
  const said = `Drafts of ${counted(last.length, "token")} write ${formatFixed(last.measured, 2)} tokens a round; by the mean acceptance it would be ${formatFixed(last.byMean, 2)}.`;
  if (!costs || rows.length < 2) return said;
  const best = (name) =>
    bestLength(
      rows.map((row) => row[name]),
      costs.c,
      costs.v + costs.o,
    );
  const [real, mean] = [best("measured"), best("byMean")];
  const both =
    real === mean
      ? `Both say that ${real} pays best here`
      : `By the rounds ${real} pays best here, by the mean ${mean}`;
  return `${said} ${both}, of the lengths up to ${last.length}, if all cost the same to check.`;
}

export const card = {
  area: "unfold",
  title: "Acceptance over time",
  scenes: [],
  sheet,
  make: (page) => new Acceptance(page),
};
