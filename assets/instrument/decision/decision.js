// The contest: how the children of one slot were judged, from the laws they really faced.
//
// Each rule has its own form: a coin is shown only where one was tossed against a threshold; greedy, deterministic and
// block contests say what decided them. Before the verdict is known nothing of it is told.

import { h, setText } from "../base/dom.js";
import { FATES } from "../base/fates.js";
import { formatFigure, formatProb, shorten, visible } from "../base/format.js";
import { LOSSY, RULE_WORDS } from "../base/rules.js";
import { fateAt, openSlots } from "../base/stages.js";
import { decisionAt, slotRaw } from "../base/store.js";
import { lossyForm } from "./lossy.js";
import { overlapLine, probabilityBars, probabilityPicture } from "../draw/bars.js";

export class DecisionView {
  constructor(actions) {
    this.actions = actions; // { open(slot, key) }
    this.title = h("h3", {});
    this.what = h("p", { class: "note" });
    this.lossy = h("span", { class: "badge caveat", text: "lossy", hidden: true });
    this.tabs = h("div", { class: "tabs", role: "group", "aria-label": "Contests of this round" });
    this.body = h("div", { class: "contest-body", tabindex: "0", role: "group" });
    this.root = h(
      "section",
      { class: "card contest" },
      h("header", { class: "card-head" }, h("div", { class: "head-text" }, this.title, this.what), this.lossy),
      this.tabs,
      this.body,
    );
    this.step = 0;
  }

  paint(selection, known) {
    const round = selection && selection.lane.rounds[selection.round];
    const stamp = round
      ? `${selection.lane.name}/${selection.lane.start?.run}/${round.index}/${selection.slot}/${selection.key}/${known.beat}`
      : "";
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    this.lossy.hidden = !round || !round.decisions.some((c) => LOSSY.includes(c.rule));
    if (!round) {
      setText(this.title, "The contest");
      setText(this.what, "");
      this.tabs.replaceChildren();
      return this.body.replaceChildren();
    }
    const slots = openSlots(round, known);
    const slot = slots.includes(selection.slot) ? selection.slot : slots[slots.length - 1];
    const contest = decisionAt(round, slot);
    const after = slotRaw(selection.lane, round, slot);
    setText(this.title, `The contest after ${after.prompt ? "the prompt" : after.text}`);
    this.body.setAttribute("aria-label", this.title.textContent);
    this.paintTabs(selection.lane, round, slots, slot, known);
    const view = { lane: selection.lane, round, contest, slot, key: selection.key, known };
    if (!known.drafted) return this.show("the draft is being made", []);
    if (!contest || !contest.distributions.length)
      return this.show("nothing was drafted here", known.verdict ? ownToken(view) : []);
    if (!known.verified) return this.show("drafted, and the target has not run yet", draftForm(view));
    const child = contest.children.findIndex((c) => c.node === selection.key);
    view.step = Math.max(
      0,
      Math.min(
        child >= 0 ? child : selection.key === "last" ? contest.children.length - 1 : 0,
        contest.distributions.length - 1,
        facing(view),
      ),
    );
    const forms = {
      greedy: greedyForm,
      deterministic: deterministicForm,
      block: blockForm,
      token: coinForm,
      rrsw: coinForm,
    };
    const form = LOSSY.includes(contest.rule)
      ? (at) => lossyForm(at, { coinLine, marksOf, lastHere })
      : forms[contest.rule] || coinForm;
    this.show(RULE_WORDS[contest.rule], form(view, this.actions));
  }

  show(words, parts) {
    setText(this.what, words);
    this.body.replaceChildren(...parts.filter(Boolean));
  }

  paintTabs(lane, round, slots, slot, known) {
    const block = round.decisions.some((c) => c.rule === "block"); // its coins are the tabs
    this.tabs.replaceChildren(
      ...(slots.length < 2 || (block && (!known.verdict || round.last.kind !== "bonus"))
        ? []
        : slots.map((other) => {
            const after = slotRaw(lane, round, other);
            return h("button", {
              type: "button",
              class: "chip",
              "aria-pressed": String(other === slot),
              text: shorten(after.text, 10),
              "aria-label": `Contest after ${after.text}`,
              on: { click: () => this.actions.open(other, null) },
            });
          })),
    );
  }
}

/** The child whose turn it is: the laws of those behind it would tell that it was rejected. */
function facing(view) {
  const turn = view.contest.children.findIndex((child) => !view.known.judged.has(child.node));
  return view.known.verdict || turn < 0 ? Infinity : turn;
}

const siblings = (view) => view.round.nodes.filter((n) => n.parent === view.slot && n.fate !== "never_accepted");

const lastHere = (view) =>
  view.known.verdict && view.round.last.slot === view.slot && view.round.emitted.length > view.round.accepted;

const nodeOf = (round, id) => round.nodes.find((n) => n.id === id);
const tokenOf = (round, id) => {
  const n = nodeOf(round, id);
  return n ? n.token : -1;
};
const name = (raw) => visible(raw);

// The coin on its line: [0, threshold) accepts.

function coinLine({ label, child, told, words, chosen, open }) {
  const accept = Math.max(0, Math.min(1, child.threshold ?? 0));
  const fate = !told ? "" : child.passed ? "accepted" : "rejected";
  return h(
    "button",
    {
      type: "button",
      class: `coin-row ${fate}${chosen ? " sel" : ""}`,
      on: { click: open },
      "aria-label": `${label}: threshold ${formatProb(child.threshold)}, ${told ? `coin ${formatProb(child.uniform)}, ${child.passed ? "passes" : "fails"}` : "coin not tossed yet"}`,
    },
    h("span", { class: "verdict", text: told ? (child.passed ? "✓" : "✗") : "?", "aria-hidden": "true" }),
    h("span", { class: "token", text: shorten(label, 12) }),
    h(
      "span",
      { class: "coin-track", "aria-hidden": "true" },
      h("i", { class: "win", style: { width: `${100 * accept}%` } }),
      told ? h("i", { class: "coin", style: { left: `${100 * (child.uniform ?? 0)}%` } }) : null,
    ),
    h("span", {
      class: "words",
      text: `${words}${told ? `, coin ${formatProb(child.uniform)}` : ", coin not tossed yet"}`,
    }),
  );
}

/** A child whose turn has not come. */
function waitingLine(node, words) {
  return h(
    "div",
    { class: "coin-row waiting" },
    h("span", { class: "verdict", text: "◦", "aria-hidden": "true" }),
    h("span", { class: "token", text: shorten(name(node.raw), 12) }),
    h("span", { class: "words", text: words }),
  );
}

function outcome(view) {
  const { round, contest } = view;
  if (!lastHere(view)) return [];
  const words =
    round.last.kind === "correction"
      ? [
          "correction",
          "↻",
          `${contest.children.length > 1 ? "All were" : "It was"} rejected: ${name(round.last.raw)} is drawn from the residual, what p holds above q.`,
        ]
      : ["bonus", "+", `Nothing was drafted below: ${name(round.last.raw)} is drawn from p itself.`];
  return [
    h(
      "p",
      { class: "outcome" },
      h("span", { class: `glyph ${words[0]}`, text: words[1], "aria-hidden": "true" }),
      " " + words[2],
    ),
  ];
}

// Before the target has run: what was drafted, and from which law.

function draftForm(view) {
  const laws = view.contest.distributions[0];
  const said = h("p", {
    class: "outcome",
    text: `Drafted here: ${siblings(view)
      .map((n) => name(n.raw))
      .join(", ")}. What does the target think of it?`,
  });
  if (!laws.q) return [said];
  const order = laws.q.map((_, i) => i).sort((a, b) => laws.q[b] - laws.q[a]);
  const own = {
    ids: order.map((i) => laws.ids[i]),
    raw: order.map((i) => laws.raw[i]),
    p: order.map((i) => laws.q[i]),
    rest_p: laws.rest_q,
  };
  const table = probabilityBars(own, marksOf(view), false, "q");
  return [
    said,
    table,
    h("p", { class: "legend" }, h("span", { class: "key" }, h("i", { class: "swatch thin-q" }), "draft q")),
  ];
}

// Token rule and siblings without replacement.

function coinForm(view, actions) {
  const { contest, slot, step, known } = view;
  const laws = contest.distributions[step];
  const lines = siblings(view).map((node) => {
    const i = contest.children.findIndex((child) => child.node === node.id);
    const child = contest.children[i];
    const told = known.verdict || known.judged.has(node.id);
    if (!child && known.verdict) return waitingLine(node, "never judged: a sibling before it was accepted");
    if (!child || i > facing(view)) return waitingLine(node, "waits for its turn");
    const ratio = i === 0 ? "min(1, p/q)" : "residual min(1, P/Q)";
    return coinLine({
      label: name(node.raw),
      child,
      told,
      chosen: i === step && contest.children.length > 1,
      words: `${ratio} = ${formatProb(child.p)} / ${formatProb(child.q)} → ${formatProb(child.threshold)}`,
      open: () => actions.open(slot, child.node),
    });
  });
  return [
    h("div", { class: "coins" }, lines),
    ...outcome(view),
    ...probabilityPicture(laws, marksOf(view), true),
    overlapLine(laws, step === 0),
  ];
}

/** Which tokens of a law are pointed at: the drafted ones with their fate so far, and the round's own. */
function marksOf(view) {
  const { round, known } = view;
  const marks = new Map();
  for (const node of siblings(view)) {
    const fate = fateAt(round, known, node);
    marks.set(node.token, [fate, `drafted ${FATES[fate].glyph || "·"}`]);
  }
  if (lastHere(view))
    marks.set(round.last.token, [round.last.kind, round.last.kind === "correction" ? "drawn ↻" : "drawn +"]);
  return marks;
}

// Block: the chain as a whole.

function blockForm(view, actions) {
  const { round, contest, slot, step, known } = view;
  const chain = round.decisions.filter((c) => c.rule === "block");
  const lines = chain.flatMap((c, at) =>
    c.children.map((child) =>
      coinLine({
        label: `${at + 1} ${name(nodeOf(round, child.node).raw)}`,
        child,
        told: known.verdict || known.judged.has(child.node),
        chosen: c.slot === slot,
        words: `weight ${formatProb(child.weight)}, h = ${formatProb(child.threshold)}`,
        open: () => actions.open(c.slot, child.node),
      }),
    ),
  );
  const own =
    lastHere(view) && round.last.kind === "correction"
      ? h(
          "p",
          { class: "outcome" },
          h("span", { class: "glyph correction", text: "↻", "aria-hidden": "true" }),
          ` ${name(round.last.raw)} was drawn from the block's residual: what weight × p holds above q.`,
        )
      : null;
  return [
    h("div", { class: "coins" }, lines),
    known.verdict ? h("p", { class: "outcome", text: blockVerdict(chain) }) : null,
    ...probabilityPicture(contest.distributions[step], marksOf(view), true),
    own,
    h("p", {
      class: "sum",
      text: "p and q at this position. The block is judged as a whole: the weight carries the ratio p/q of the positions before, and h adds what the next position can still win back.",
    }),
  ];
}

function blockVerdict(chain) {
  const passes = chain.flatMap((c) => c.children).map((child) => child.passed);
  const tau = passes.lastIndexOf(true) + 1;
  if (tau === 0) return "No coin passed: nothing of the block is accepted.";
  const rescued = passes.slice(0, tau).filter((p) => !p).length;
  return `The last coin that passes is number ${tau}: ${tau === 1 ? "it is accepted" : `all ${tau} up to it are accepted`}${rescued ? `, ${rescued} of them although their own coin failed` : ""}.`;
}

// Greedy: no coin.

function greedyForm(view) {
  const { round, contest, slot, known } = view;
  const laws = contest.distributions[0];
  const marks = marksOf(view);
  const choice = contest.draw;
  const agreed = contest.children.find((child) => tokenOf(round, child.node) === choice);
  const told = known.verdict || contest.children.every((child) => known.judged.has(child.node));
  if (told && choice !== null && choice !== undefined)
    marks.set(choice, agreed ? ["accepted", "best, drafted ✓"] : [lastKind(round, slot), "target's best"]);
  const said = contest.children.map((child) => name(nodeOf(round, child.node).raw)).join(", ");
  const best = rawOf(round, laws, choice);
  const words = !told
    ? `Drafted: ${siblings(view)
        .map((n) => name(n.raw))
        .join(", ")}. Is the target's best token among them?`
    : !contest.children.length
      ? `The target's best token is ${best}.`
      : agreed
        ? `The target's best token is ${best}, and the draft had it: accepted.`
        : `The target's best token is ${best}; the draft had ${said}: rejected.`;
  return [
    h("p", { class: "outcome", text: words }),
    ...probabilityPicture(laws, marks, false),
    h(
      "p",
      { class: "sum" },
      laws.scale === "before_argmax"
        ? "Shown before the argmax; at temperature 0 all of the law lies on the best token."
        : "",
      Number.isFinite(contest.gap) ? ` Its logit leads the second by ${formatFigure(contest.gap)}.` : "",
    ),
  ];
}

const lastKind = (round, slot) => (round.last.slot === slot ? round.last.kind : "unvisited");

function rawOf(round, laws, id) {
  if (round.last.token === id) return name(round.last.raw);
  const at = laws ? laws.ids.indexOf(id) : -1;
  return at >= 0 ? name(laws.raw[at]) : `token ${id}`;
}

// Deterministic children: the target's own draw decides.

function deterministicForm(view) {
  const { round, contest, slot, known } = view;
  const laws = contest.distributions[0];
  const marks = marksOf(view);
  const told = known.verdict || contest.children.every((child) => known.judged.has(child.node));
  const agreed = contest.children.find((child) => tokenOf(round, child.node) === contest.draw);
  if (told && contest.draw !== null && contest.draw !== undefined)
    marks.set(contest.draw, agreed ? ["accepted", "drawn, drafted ✓"] : [lastKind(round, slot), "drawn from p"]);
  const mass = siblings(view).reduce((sum, n) => sum + n.p, 0);
  const own = rawOf(round, laws, contest.draw);
  return [
    h("p", {
      class: "outcome",
      text: !told
        ? `Drafted: ${siblings(view)
            .map((n) => name(n.raw))
            .join(", ")}. Will the target's own draw from p be among them?`
        : `The target drew ${own} from p: ${agreed ? "a child carries it, so it is accepted" : "no child carries it, so it is the round's own token"}.`,
    }),
    ...probabilityPicture(laws, marks, false),
    h(
      "p",
      { class: "sum" },
      h("b", { text: `Σ p(drafted) = ${formatProb(mass)}` }),
      " · the chance that the draw lands on a child. The draft's own certainty plays no part.",
    ),
  ];
}

// No contest: the round's own token from the target's law.

function ownToken(view) {
  const { round, slot } = view;
  if (round.last.slot !== slot) return [];
  const kept = round.emitted.length > round.accepted;
  const laws = round.last.distributions;
  const kind = round.last.kind;
  const greedy = round.last.uniform === null || round.last.uniform === undefined;
  const how = greedy ? "the target's best token" : kind === "correction" ? "drawn from the residual" : "drawn from p";
  const why = {
    bonus: "The row below the last accepted token came with the same forward: ",
    plain: "",
    correction: "",
  }[kind];
  const words = `${why}${name(round.last.raw)} is ${how}.${kept ? "" : " It was discarded: the text had ended before it."}`;
  const marks = new Map([[round.last.token, [kind, greedy ? "best" : kind === "bonus" ? "drawn +" : "drawn"]]]);
  return [
    h(
      "p",
      { class: "outcome" },
      kind === "bonus" ? h("span", { class: "glyph bonus", text: "+", "aria-hidden": "true" }) : null,
      (kind === "bonus" ? " " : "") + words,
    ),
    ...(laws ? probabilityPicture(laws, marks, false) : []),
    laws && laws.scale === "before_argmax"
      ? h("p", {
          class: "sum",
          text: "Shown before the argmax; at temperature 0 all of the law lies on the best token.",
        })
      : null,
  ];
}
