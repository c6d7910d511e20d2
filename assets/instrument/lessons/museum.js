// The museum: published bugs, rebuilt small. Each with what its server wrote, and how its audit and that of its mend
// ended (tests/programs/record_museum.py).

import { fromAddress, setInAddress } from "../base/address.js";
import { button, h, remark } from "../base/dom.js";
import { formatProb, visible } from "../base/format.js";
import { callServer } from "../base/host.js";
import { drawn } from "../base/templates.js";
import { shareBars } from "../draw/shares.js";
import { scrollable, table } from "../draw/tables.js";
import { betRows, resultOf, resultWords } from "../servers/audit.js";

const WHAT =
  "Each of these servers ran, and looked right: the text is fluent, greedy texts are identical, the speed is as it should be. Here each is a small server of our own with the wrong mechanism. The audit of “Servers” convicts it, and finds no difference once it is mended. “draftscope museum” does all this again.";
const OFF = 0.01; // a reported probability that far off is marked
const SIDES = { wrong: "As it was", mended: "Mended" };

export class MuseumView {
  /** `enter(words)` opens the door of Learn, with words of the address. */
  constructor(enter) {
    this.enter = enter;
    this.entrance = h(
      "section",
      { "aria-label": "Museum" },
      h("h3", "A museum of real bugs"),
      h(
        "p.note",
        "Four servers that wrote fluent text of a wrong distribution, or lied about it: the mechanism, a picture, what convicts each, and the mend.",
      ),
      h(
        "div.controls",
        button("Open the museum", () => this.open()),
      ),
    );
    this.title = h("h2", { tabindex: "-1" }, "Real bugs of speculative decoding");
    this.halls = h("div.halls");
    this.root = h(
      "div.learn.museum",
      { hidden: true },
      h(
        "header.card-head.wrap",
        this.title,
        button("Back to Learn", () => this.close()),
      ),
      remark(WHAT),
      this.halls,
    );
  }

  /** Whether the address leads here. */
  get wanted() {
    return fromAddress("museum") === "1";
  }

  open() {
    this.enter({ museum: 1 });
    this.title.focus({ preventScroll: true });
  }

  close() {
    setInAddress({ museum: null }, true);
    this.show();
    this.entrance.querySelector("button").focus();
  }

  /** As the address says. The exhibits are fetched once. */
  async show() {
    this.root.hidden = !this.wanted;
    if (!this.wanted || this.requested) return;
    this.requested = true;
    const record = await callServer("museum", {});
    if (record) this.halls.replaceChildren(...record.exhibits.map(exhibitOf), othersOf(record.not_reproduced));
    else this.requested = false;
  }
}

function exhibitOf(exhibit) {
  const { number, link, program, title, story, rebuilt, picture } = exhibit;
  return h(
    "section.card.exhibit",
    { "aria-label": number },
    h("h3", title),
    h("p.note", h("a", { href: link, target: "_blank", rel: "noopener" }, number), ` · ${program} · here: ${rebuilt}`),
    h("p", story),
    remark(captionOf(picture)),
    h(
      "div.twofold",
      Object.entries(SIDES).map(([side, words]) => sideOf(words, exhibit[side], picture, side)),
    ),
  );
}

const captionOf = ({ kind, prompt, draws }) =>
  kind === "written"
    ? `After “${prompt}”, where one token is drafted: the target's probability → its share of ${draws.toLocaleString("en")} draws`
    : `A text after “${prompt}”, token by token: the target's probability → the one that is reported. The last token had no draft.`;

/** The picture and the audit of one side. */
function sideOf(words, audit, picture, side) {
  const result = resultOf(audit, false);
  return h(
    "div.audit",
    { "data-result": result },
    h("h4", words),
    drawn(shareBars(`${words}: the target's and this server's`, rowsOf(picture, side), "the target's")),
    picture.kind === "written" && h("p.note", distanceWords(picture, side)),
    h("p.verdict", resultWords(audit, result)),
    h("p.verdict-sentence", audit.verdict),
    h("p.note", `Evidence in nats; a difference is clear from ${audit.needed.toFixed(1)} on.`),
    h("div.bets", drawn(betRows(audit))),
  );
}

const rowsOf = ({ kind, rows, draws }, side) =>
  rows.map((row) => {
    const { raw, target } = row;
    const got = row[side];
    const allowed = kind === "reported" ? OFF : 4 * Math.sqrt(Math.max(target * (1 - target), 1e-9) / draws);
    return { name: raw ? visible(raw) : "all others", wanted: target, got, far: Math.abs(got - target) > allowed };
  });

const distanceWords = ({ variation, chance }, side) =>
  `Total variation of all tokens ${formatProb(variation[side])}; draws from the target itself have about ${formatProb(chance)}.`;

const othersOf = (others) =>
  h(
    "section",
    { "aria-label": "Not reproduced" },
    h("h3", "Not reproduced here"),
    drawn(scrollable("Not reproduced", table(["number or program", "what it is"], others))),
  );
