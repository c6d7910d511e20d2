// Is it still the target: what is proved, where, and what this run's own record shows.

import { h, remark } from "../base/dom.js";
import { counted } from "../base/format.js";
import { draftLane, isInside, plainLane } from "../base/store.js";
import { scrollable, table } from "../draw/tables.js";
import { audit } from "./audit.js";
import { distributionFigure } from "../run/sentence.js";

const RULES = {
  token: { name: "token rule", papers: ["2211.17192", "2302.01318"] },
  block: { name: "block verification", papers: ["2403.10444"] },
  rrsw: { name: "siblings without replacement (RRSw)", papers: ["2402.12374"] },
  deterministic: { name: "deterministic drafts: the target samples its own token", papers: ["2211.17192"] },
  typical: { name: "typical acceptance (lossy)", papers: ["2401.10774"] },
  lenient: { name: "leniency (lossy)", papers: ["2211.17192"] },
  "top-k": { name: "top-k agreement (lossy)", papers: [] },
  greedy: { name: "greedy: accept while the child is the target's most probable token", papers: [] },
};

export class ExactView {
  constructor(check) {
    this.check = check;
    this.body = h("div.sheet");
    this.root = h("div.sheet", this.body, check.root);
  }

  paint({ store, whole, busy }) {
    this.check.root.hidden = isInside(draftLane(store)); // the pair is the server's
    this.check.paint(busy, draftLane(store)?.start);
    const stamp = `${store.run}/${whole}/${store.lanes.map((lane) => lane.rounds.length).join()}`;
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    const lane = draftLane(store) || store.lanes[0];
    const distribution = distributionFigure(lane, plainLane(store), whole);
    this.body.replaceChildren(
      h(
        "p.result-line",
        { "data-figure": "distribution" },
        h("b", distribution.value),
        ` ${distribution.label}: ${distribution.detail}.`,
      ),
      ...proof(lane),
      ...held(lane, whole),
    );
  }
}

function proof(lane) {
  const counts = new Map();
  for (const decision of lane.rounds.flatMap((r) => r.decisions))
    counts.set(decision.rule, (counts.get(decision.rule) || 0) + 1);
  if (!counts.size) return [remark("Nothing was drafted, so no rule was applied.")];
  const link = (paper) => [
    " ",
    h("a", { href: `https://arxiv.org/abs/${paper}`, target: "_blank", rel: "noreferrer" }, paper),
  ];
  const rule = ([kind, count]) =>
    h(
      "li",
      h("b", RULES[kind]?.name || kind),
      ` · ${counted(count, "decision")} in this run`,
      (RULES[kind]?.papers || []).flatMap(link),
    );
  return [
    h("h4", "The rule"),
    h("ul.rules", [...counts].map(rule)),
    h(
      "p.sum",
      isInside(lane)
        ? "The server's own code applied this rule. What its recorder sent of this run is checked below; draftscope audit URL --inside tests every tensor of many runs."
        : lane.start && !lane.start.exact
          ? "This rule is lossy by design: the output does not follow the target's distribution."
          : [
              "Proved: ",
              h("code", "engine/draftscope/verify/rules.py"),
              " states the rule in rational numbers; ",
              h("code", "tests/verify/test_rules.py"),
              " enumerates every draft, random number and last token and gets exactly the target's distribution; ",
              h("code", "tests/decode/test_distribution.py"),
              " samples the whole loop, and checks that deliberate mistakes are caught. The proof covers the rule; ",
              h("code", "draftscope check"),
              " tests your own pair.",
            ],
    ),
  ];
}

function held(lane, whole) {
  if (!whole) return [];
  const row = ({ good, of, words }) => [{ class: good === of ? "" : "broken" }, `${good} of ${of}`, words];
  return [
    h("h4", "Checked here, from the recording"),
    scrollable("Checks", table(["holds", "what"], audit(lane).map(row), 1)),
  ];
}
