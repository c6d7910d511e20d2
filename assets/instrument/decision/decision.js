// The decision: how the children of one slot were decided, from the probs they really faced.
//
// Each rule has its own form: a random number u is shown only where one was compared with a threshold; greedy,
// deterministic and block decisions say what decided them. A hidden result is shown nowhere.

import { button, cardHead, h, remark, setText } from "../base/dom.js";
import { FATES } from "../base/fates.js";
import { formatFigure, formatProb, shorten, visible } from "../base/format.js";
import { askHost, hostCan, say } from "../base/host.js";
import { LOSSY, RULE_WORDS } from "../base/rules.js";
import { fateAt, openSlots } from "../base/stages.js";
import { childrenOf, decisionAt, isArgmax, isInside, nodeOf, slotRaw } from "../base/store.js";
import { explained } from "../base/symbols.js";
import { render } from "../vendor/lit-html.js";
import { blockForm } from "./block.js";
import { lossyForm } from "./lossy.js";
import { overlapLine, probabilityBars, probabilityPicture } from "../draw/bars.js";

const OTHER = {
  token: { to: "block", text: "Use block verification", said: "The next run verifies each chain as a block." },
  block: { to: "token", text: "Use the token rule", said: "The next run verifies token by token, with min(1, p/q)." },
};

export class DecisionView {
  /** `below` stands at the end of every decision. */
  constructor(actions, below) {
    this.actions = actions; // { open(slot, key) }
    this.below = below;
    this.title = h("h3");
    this.what = h("p.note");
    this.lossy = h("span.badge.caveat", { hidden: true }, "lossy");
    this.other = button("", () => this.setRule());
    this.other.hidden = true;
    this.tabs = h("div.tabs", { role: "group", "aria-label": "Decisions of this round" });
    this.body = h("div.decision-body", { tabindex: "0", role: "group" });
    this.root = h(
      "section.card.decision",
      cardHead(this.title, this.what, this.lossy, this.other),
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
    const rules = round ? round.decisions.map(({ rule }) => rule) : [];
    this.rule = rules.every((rule) => OTHER[rule]) ? rules[0] : undefined; // of a drawn chain
    this.other.hidden = !this.rule || !hostCan("set") || isInside(selection.lane);
    setText(this.other, this.rule ? OTHER[this.rule].text : "");
    this.lossy.hidden = !round || !round.decisions.some((c) => LOSSY.includes(c.rule));
    if (!round) {
      setText(this.title, "The decision");
      render("", this.what);
      this.tabs.replaceChildren();
      return this.body.replaceChildren();
    }
    const slots = openSlots(round, known);
    const slot = slots.includes(selection.slot) ? selection.slot : slots[slots.length - 1];
    const decision = decisionAt(round, slot);
    const after = slotRaw(selection.lane, round, slot);
    setText(this.title, `The decision after ${after.prompt ? "the prompt" : after.text}`);
    this.body.setAttribute("aria-label", this.title.textContent);
    this.paintTabs(selection.lane, round, slots, slot, known);
    const view = { lane: selection.lane, round, decision, slot, key: selection.key, known };
    if (!known.drafted) return this.show("drafting", []);
    if (!decision || !decision.distributions.length)
      return this.show("nothing was drafted here", known.result ? ownToken(view) : []);
    if (!known.verified) return this.show("drafted; the target has not run yet", draftForm(view));
    const child = decision.children.findIndex((c) => c.node === selection.key);
    view.step = Math.max(
      0,
      Math.min(
        child >= 0 ? child : selection.key === "last" ? decision.children.length - 1 : 0,
        decision.distributions.length - 1,
        facing(view),
      ),
    );
    const forms = {
      greedy: greedyForm,
      deterministic: deterministicForm,
      block: (at, actions) => blockForm(at, actions, { uniformLine, marksOf, lastHere }),
      token: uniformForm,
      rrsw: uniformForm,
    };
    const form = LOSSY.includes(decision.rule)
      ? (at) => lossyForm(at, { uniformLine, marksOf, lastHere })
      : forms[decision.rule] || uniformForm;
    this.show(RULE_WORDS[decision.rule], form(view, this.actions));
  }

  /** The next run uses the other exact rule. */
  setRule() {
    const { to, said } = OTHER[this.rule];
    askHost("set", { rule: to });
    say(`${said} Press Run.`);
  }

  show(words, parts) {
    render(explained(words), this.what);
    this.body.replaceChildren(...parts.filter(Boolean), this.below);
  }

  paintTabs(lane, round, slots, slot, known) {
    const block = round.decisions.some((c) => c.rule === "block"); // its uniforms are the tabs
    this.tabs.replaceChildren(
      ...(slots.length < 2 || (block && (!known.result || round.last.kind !== "bonus"))
        ? []
        : slots.map((other) => {
            const after = slotRaw(lane, round, other);
            return h(
              "button.chip",
              {
                type: "button",
                "aria-pressed": String(other === slot),
                "aria-label": `Decision after ${after.text}`,
                on: { click: () => this.actions.open(other, null) },
              },
              shorten(after.text, 10),
            );
          })),
    );
  }
}

/** The child to verify next: the distributions of later ones would reveal that it was rejected. */
function facing(view) {
  const turn = view.decision.children.findIndex((child) => !view.known.decided.has(child.node));
  return view.known.result || turn < 0 ? Infinity : turn;
}

const siblings = (view) => childrenOf(view.round, view.slot);

const draftedNames = (view) =>
  siblings(view)
    .map((n) => name(n.raw))
    .join(", ");

const lastHere = (view) =>
  view.known.result && view.round.last.slot === view.slot && view.round.emitted.length > view.round.accepted;

const tokenOf = (round, id) => {
  const n = nodeOf(round, id);
  return n ? n.token : -1;
};
const name = (raw) => visible(raw);

// The uniform on its line: [0, threshold) accepts.

function uniformLine({ label, child, decided, words, chosen, open, fate: givenFate, result }) {
  const accept = Math.max(0, Math.min(1, child.threshold ?? 0));
  const fate = givenFate ?? (!decided ? "" : child.passed ? "accepted" : "rejected");
  const glyph = fate ? FATES[fate].glyph : decided ? "" : "?";
  return h(
    "button",
    {
      type: "button",
      class: `uniform-row ${fate}${chosen ? " sel" : ""}`,
      on: { click: open },
      "aria-label": `${label}: threshold ${formatProb(child.threshold)}, ${decided ? `u ${formatProb(child.uniform)}, ${child.passed ? "passes" : "fails"}` : "u not drawn yet"}`,
    },
    h("span.result", { "aria-hidden": "true" }, glyph),
    h("span.token", shorten(label, 12)),
    h(
      "span.uniform-track",
      { "aria-hidden": "true" },
      h("i.win", { style: { width: `${100 * accept}%` } }),
      decided ? h("i.uniform", { style: { left: `${100 * (child.uniform ?? 0)}%` } }) : null,
    ),
    h(
      "span.words",
      `${words}${decided ? `, u ${formatProb(child.uniform)}${result ? `: ${result}` : ""}` : ", u not drawn yet"}`,
    ),
  );
}

/** A child that is not verified yet. */
function waitingLine(node, words) {
  return h(
    "div.uniform-row.waiting",
    h("span.result", { "aria-hidden": "true" }, "◦"),
    h("span.token", shorten(name(node.raw), 12)),
    h("span.words", words),
  );
}

function outcome(view) {
  const { round, decision } = view;
  if (!lastHere(view)) return [];
  const words =
    round.last.kind === "correction"
      ? [
          "correction",
          "↻",
          `${decision.children.length > 1 ? "All were" : "It was"} rejected. ${name(round.last.raw)} is sampled from the residual distribution, norm((p − q)+).`,
        ]
      : ["bonus", "+", `No draft below: ${name(round.last.raw)} is sampled from p.`];
  return [h("p.outcome", h("span", { class: `glyph ${words[0]}`, "aria-hidden": "true" }, words[1]), " " + words[2])];
}

// Before the target has run: what was drafted, and from which distribution.

function draftForm(view) {
  const probs = view.decision.distributions[0];
  const said = h("p.outcome", `Drafted here: ${draftedNames(view)}. What is its probability under the target?`);
  if (!probs.q) return [said];
  const order = probs.q.map((_, i) => i).sort((a, b) => probs.q[b] - probs.q[a]);
  const drafted = {
    ids: order.map((i) => probs.ids[i]),
    raw: order.map((i) => probs.raw[i]),
    p: order.map((i) => probs.q[i]),
    rest_p: probs.rest_q,
  };
  const table = probabilityBars(drafted, marksOf(view), false, "q");
  return [said, table, h("p.legend", h("span.key", h("i.swatch.thin-q"), "draft q"))];
}

// Token rule and siblings without replacement.

function uniformForm(view, actions) {
  const { decision, slot, step, known } = view;
  const probs = decision.distributions[step];
  const lines = siblings(view).map((node) => {
    const i = decision.children.findIndex((child) => child.node === node.id);
    const child = decision.children[i];
    const decided = known.result || known.decided.has(node.id);
    if (!child && known.result) return waitingLine(node, "not reached: an earlier sibling was accepted");
    if (!child || i > facing(view)) return waitingLine(node, "not its turn yet");
    const ratio = i === 0 ? "min(1, p/q)" : "after rejections min(1, P/Q)";
    return uniformLine({
      label: name(node.raw),
      child,
      decided,
      chosen: i === step && decision.children.length > 1,
      words: `${ratio} = ${formatProb(child.p)} / ${formatProb(child.q)} → ${formatProb(child.threshold)}`,
      open: () => actions.open(slot, child.node),
    });
  });
  return [
    h("div.uniforms", lines),
    ...outcome(view),
    ...probabilityPicture(probs, marksOf(view), true),
    overlapLine(probs, step === 0),
  ];
}

/** Which tokens of a distribution are pointed at: the drafted ones with their fate so far, and the round's own. */
function marksOf(view) {
  const { round, known } = view;
  const marks = new Map();
  for (const node of siblings(view)) {
    const fate = fateAt(round, known, node);
    marks.set(node.token, [fate, `drafted ${FATES[fate].glyph || "·"}`]);
  }
  if (lastHere(view))
    marks.set(round.last.token, [round.last.kind, round.last.kind === "correction" ? "sampled ↻" : "sampled +"]);
  return marks;
}

// Greedy: no uniform.

function greedyForm(view) {
  const { round, decision, slot, known } = view;
  const probs = decision.distributions[0];
  const marks = marksOf(view);
  const choice = decision.draw;
  const agreed = decision.children.find((child) => tokenOf(round, child.node) === choice);
  const decided = known.result || decision.children.every((child) => known.decided.has(child.node));
  if (decided && choice !== null && choice !== undefined)
    marks.set(
      choice,
      agreed ? ["accepted", "most probable, drafted ✓"] : [lastKind(round, slot), "target's most probable"],
    );
  const said = decision.children.map((child) => name(nodeOf(round, child.node).raw)).join(", ");
  const best = rawOf(round, probs, choice);
  const words = !decided
    ? `Drafted: ${draftedNames(view)}. Is the target's most probable token among them?`
    : !decision.children.length
      ? `The target's most probable token is ${best}.`
      : agreed
        ? `The target's most probable token is ${best}. It was drafted, so it is accepted.`
        : `The target's most probable token is ${best}. Drafted was ${said}: rejected.`;
  return [
    h("p.outcome", words),
    ...probabilityPicture(probs, marks, false),
    h(
      "p.sum",
      probs.scale === "before_argmax"
        ? "Shown before the argmax; at temperature 0 the most probable token has probability 1."
        : "",
      Number.isFinite(decision.gap) ? ` Its logit is above the second by ${formatFigure(decision.gap)}.` : "",
    ),
  ];
}

const lastKind = (round, slot) => (round.last.slot === slot ? round.last.kind : "unvisited");

function rawOf(round, probs, id) {
  if (round.last.token === id) return name(round.last.raw);
  const at = probs ? probs.ids.indexOf(id) : -1;
  return at >= 0 ? name(probs.raw[at]) : `token ${id}`;
}

// Deterministic children: the target's own draw decides.

function deterministicForm(view) {
  const { round, decision, slot, known } = view;
  const probs = decision.distributions[0];
  const marks = marksOf(view);
  const decided = known.result || decision.children.every((child) => known.decided.has(child.node));
  const agreed = decision.children.find((child) => tokenOf(round, child.node) === decision.draw);
  if (decided && decision.draw !== null && decision.draw !== undefined)
    marks.set(decision.draw, agreed ? ["accepted", "sampled, drafted ✓"] : [lastKind(round, slot), "sampled from p"]);
  const mass = siblings(view).reduce((sum, n) => sum + n.p, 0);
  const sampled = rawOf(round, probs, decision.draw);
  return [
    h(
      "p.outcome",
      !decided
        ? `Drafted: ${draftedNames(view)}. Will the target's own sample be among them?`
        : `The target sampled ${sampled} from p. ${agreed ? "It was drafted, so it is accepted." : "It was not drafted, so it is the correction."}`,
    ),
    ...probabilityPicture(probs, marks, false),
    h(
      "p.sum",
      h("b", `Σ p(drafted) = ${formatProb(mass)}`),
      " · the probability that the sample was drafted. The draft's own probabilities do not matter.",
    ),
  ];
}

// No decision: the round's own token from the target's distribution.

function ownToken(view) {
  const { round, slot } = view;
  if (round.last.slot !== slot) return [];
  const kept = round.emitted.length > round.accepted;
  const probs = round.last.distributions;
  const kind = round.last.kind;
  const greedy = isArgmax(round);
  const how = greedy
    ? "the target's most probable token"
    : kind === "correction"
      ? "sampled from the residual distribution"
      : "sampled from p";
  const why = {
    bonus: "The same forward also gave the row after the last accepted token: ",
    plain: "",
    correction: "",
  }[kind];
  const words = `${why}${name(round.last.raw)} is ${how}.${kept ? "" : " It was discarded because the text had already ended."}`;
  const marks = new Map([[round.last.token, [kind, greedy ? "best" : kind === "bonus" ? "sampled +" : "drawn"]]]);
  return [
    h(
      "p.outcome",
      kind === "bonus" ? h("span.glyph.bonus", { "aria-hidden": "true" }, "+") : null,
      (kind === "bonus" ? " " : "") + words,
    ),
    ...(probs ? probabilityPicture(probs, marks, false) : []),
    probs && probs.scale === "before_argmax"
      ? remark("Shown before the argmax; at temperature 0 the most probable token has probability 1.")
      : null,
  ];
}
