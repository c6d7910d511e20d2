// The decision: how the children of one slot were decided, from the probs they really faced.
//
// Each rule has its own form: a random number u is shown only where one was compared with a threshold; greedy,
// deterministic and block decisions say what decided them. A hidden result is shown nowhere.

import { h } from "../base/dom.js";
import { formatFigure, formatProb, shorten, visible } from "../base/format.js";
import { askHost, hostCan, say } from "../base/host.js";
import { LOSSY, RULE_WORDS } from "../base/rules.js";
import { openSlots } from "../base/stages.js";
import { decisionAt, isArgmax, isInside, nodeOf, slotRaw } from "../base/store.js";
import { explainedWords } from "../base/symbols.js";
import { cardHead, quoted, quotedList, smallButton } from "../base/templates.js";
import { draftPicture, overlapLine, probabilityPicture } from "../draw/bars.js";
import { html, keyed, nothing, render } from "../vendor/lit-html.js";
import { blockForm } from "./block.js";
import { ARGMAX, MANY, lastHere, marksOf, note, outcomeLine, siblings, uniformLine, waitingLine } from "./lines.js";
import { lossyForm } from "./lossy.js";

const NO_TABS = html`<div class="tabs"></div>`; // their room stays, so that nothing below moves
const OTHER = {
  token: { to: "block", text: "Use block verification", said: "The next run verifies each chain as a block." },
  block: { to: "token", text: "Use the token rule", said: "The next run verifies token by token, with min(1, p/q)." },
};

export class DecisionView {
  /** `below` stands at the end of every decision. */
  constructor(actions, below) {
    this.actions = actions; // { open(slot, key) }
    this.below = below;
    this.root = h("section.card.decision");
    this.paint(null);
  }

  paint(selection, known) {
    const round = selection?.lane.rounds[selection.round];
    const at = round && viewOf(selection, round, known);
    const { words, form } = at ? this.shown(at) : { words: "", form: nothing };
    const after = at && slotRaw(at.lane, round, at.slot);
    const title = !at ? "The decision" : `The decision after ${after.prompt ? "the prompt" : after.text}`;
    const shownTitle = at && !after.prompt ? html`The decision after ${quoted(after.text)}` : title;
    const decided = at && `${at.lane.start?.run}/${at.lane.name}/${round.index}/${at.slot}`; // another is drawn anew
    const lossy = round?.decisions.some(({ rule }) => LOSSY.includes(rule));
    const badge = html`<span class="badge caveat" ?hidden=${!lossy}>lossy</span>`;
    const beside = [badge, at ? ruleButton(round, at.lane) : nothing];
    const view = html`
      ${cardHead(shownTitle, explainedWords(words), beside)} ${at ? this.tabs(at) : NO_TABS}
      <div class="decision-body" tabindex="0" role="group" aria-label=${title}>${keyed(decided, form)}</div>
      ${at ? this.below : nothing}
    `;
    render(view, this.root);
  }

  /** What stands in the body, and what it is called. */
  shown(view) {
    const { decision, known } = view;
    if (!known.drafted) return { words: "drafting", form: nothing };
    if (!decision || !decision.distributions.length)
      return { words: "nothing was drafted here", form: known.result ? ownToken(view) : nothing };
    if (!known.verified) return { words: "drafted; the target has not run yet", form: draftForm(view) };
    return { words: RULE_WORDS[decision.rule], form: FORMS[decision.rule](view, this.actions) };
  }

  tabs({ lane, round, slots, slot, known }) {
    const block = round.decisions.some(({ rule }) => rule === "block"); // its uniforms are the tabs
    if (slots.length < 2 || (block && (!known.result || round.last.kind !== "bonus"))) return NO_TABS;
    const chip = (other) => {
      const { text } = slotRaw(lane, round, other);
      return html`<button
        class="chip"
        type="button"
        aria-pressed=${other === slot}
        aria-label="Decision after ${text}"
        @click=${() => this.actions.open(other, null)}
      >
        ${shorten(text, 10)}
      </button>`;
    };
    return html`<div class="tabs" role="group" aria-label="Decisions of this round">${slots.map(chip)}</div>`;
  }
}

/** Chains that were drawn: the next run may use the other exact rule. */
function ruleButton({ decisions }, lane) {
  const other = decisions.every(({ rule }) => OTHER[rule]) && OTHER[decisions[0]?.rule];
  if (!other || !hostCan("set") || isInside(lane)) return nothing;
  const set = () => {
    askHost("set", { rule: other.to });
    say(`${other.said} Press Run.`);
  };
  return smallButton(other.text, set);
}

/** The slot to show of the round, as far as it is open, and the child of it that is verified. */
function viewOf(selection, round, known) {
  const { lane, key } = selection;
  const slots = openSlots(round, known);
  const slot = slots.includes(selection.slot) ? selection.slot : slots.at(-1);
  const decision = decisionAt(round, slot);
  const view = { lane, round, decision, slots, slot, key, known };
  return decision ? { ...view, step: stepOf(view) } : view;
}

/** The child that is chosen, else the one that decided; never one that would reveal the fate of an earlier one. */
function stepOf(view) {
  const { children, distributions } = view.decision;
  const chosen = children.findIndex(({ node }) => node === view.key);
  const wanted = chosen >= 0 ? chosen : view.key === "last" ? children.length - 1 : 0;
  return Math.max(0, Math.min(wanted, distributions.length - 1, facing(view)));
}

/** The child to verify next: the distributions of later ones would reveal that it was rejected. */
function facing(view) {
  const turn = view.decision.children.findIndex((child) => !view.known.decided.has(child.node));
  return view.known.result || turn < 0 ? Infinity : turn;
}

const draftedNames = (view) => quotedList(siblings(view).map((node) => visible(node.raw)));

const tokenOf = (round, id) => nodeOf(round, id)?.token ?? -1;

// Before the target has run: what was drafted, and from which distribution.

function draftForm(view) {
  const probs = view.decision.distributions[0];
  return html`
    ${outcomeLine(html`Drafted here: ${draftedNames(view)}. What is its probability under the target?`)}
    ${probs.q ? draftPicture(probs, marksOf(view)) : nothing}
  `;
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
      label: visible(node.raw),
      child,
      decided,
      chosen: i === step && decision.children.length > 1,
      words: `${ratio} = ${formatProb(child.p)} / ${formatProb(child.q)} → ${formatProb(child.threshold)}`,
      open: () => actions.open(slot, child.node),
    });
  });
  return html`
    <div class="uniforms ${lines.length > MANY ? "many" : ""}">${lines}</div>
    ${lastHere(view) ? outcome(view) : nothing} ${probabilityPicture(probs, marksOf(view), true, lines.length)}
    ${overlapLine(probs, step === 0)}
  `;
}

function outcome({ round, decision }) {
  const token = quoted(visible(round.last.raw));
  if (round.last.kind !== "correction") return outcomeLine(html`No draft below: ${token} is sampled from p.`, "bonus");
  const rejected = decision.children.length > 1 ? "All were" : "It was";
  return outcomeLine(
    html`${rejected} rejected. ${token} is sampled from the residual distribution, norm((p − q)+).`,
    "correction",
  );
}

// One choice of the target decides all children: its most probable token, or the one that it sampled.

/** {decided, agreed: the child that it chose, best: its name, marks}; `drafted` and `other` word its mark. */
function choiceOf(view, drafted, other) {
  const { round, decision, slot, known } = view;
  const { draw, children, distributions } = decision;
  const decided = known.result || children.every(({ node }) => known.decided.has(node));
  const agreed = children.find(({ node }) => tokenOf(round, node) === draw);
  const marks = marksOf(view);
  const kind = round.last.slot === slot ? round.last.kind : "unvisited";
  if (decided && (draw ?? null) !== null) marks.set(draw, agreed ? ["accepted", drafted] : [kind, other]);
  return { decided, agreed, best: quoted(rawOf(round, distributions[0], draw)), marks };
}

function rawOf({ last }, probs, id) {
  if (last.token === id) return visible(last.raw);
  const at = probs.ids.indexOf(id);
  return at >= 0 ? visible(probs.raw[at]) : `token ${id}`;
}

function greedyForm(view) {
  const { round, decision } = view;
  const probs = decision.distributions[0];
  const { decided, agreed, best, marks } = choiceOf(view, "most probable, drafted ✓", "target's most probable");
  const drafted = quotedList(decision.children.map((child) => visible(nodeOf(round, child.node).raw)));
  const chosen = html`The target's most probable token is ${best}.`;
  const words = !decided
    ? html`Drafted: ${draftedNames(view)}. Is the target's most probable token among them?`
    : !decision.children.length
      ? chosen
      : agreed
        ? html`${chosen} It was drafted, so it is accepted.`
        : html`${chosen} Drafted was ${drafted}: rejected.`;
  const scale = probs.scale === "before_argmax" ? ARGMAX : "";
  const gap = Number.isFinite(decision.gap) ? ` Its logit is above the second by ${formatFigure(decision.gap)}.` : "";
  return html`${outcomeLine(words)} ${probabilityPicture(probs, marks, false)} ${note(scale + gap)}`;
}

function deterministicForm(view) {
  const { decided, agreed, best, marks } = choiceOf(view, "sampled, drafted ✓", "sampled from p");
  const mass = siblings(view).reduce((sum, node) => sum + node.p, 0);
  const words = !decided
    ? html`Drafted: ${draftedNames(view)}. Will the target's own sample be among them?`
    : html`The target sampled ${best} from p.
      ${agreed ? "It was drafted, so it is accepted." : "It was not drafted, so it is the correction."}`;
  const why = " · the probability that the sample was drafted. The draft's own probabilities do not matter.";
  return html`
    ${outcomeLine(words)} ${probabilityPicture(view.decision.distributions[0], marks, false)}
    ${note(html`<b>Σ p(drafted) = ${formatProb(mass)}</b>${why}`)}
  `;
}

// No decision: the round's own token from the target's distribution.

function ownToken({ round, slot }) {
  const { kind, raw, token, distributions: probs } = round.last;
  if (round.last.slot !== slot) return nothing;
  const greedy = isArgmax(round);
  const how = greedy
    ? "the target's most probable token"
    : kind === "correction"
      ? "sampled from the residual distribution"
      : "sampled from p";
  const bonus = kind === "bonus";
  const why = bonus ? "The same forward also gave the row after the last accepted token: " : "";
  const kept = round.emitted.length > round.accepted;
  const words = html`${why}${quoted(visible(raw))} is
  ${how}.${kept ? "" : " It was discarded because the text had already ended."}`;
  const marks = new Map([[token, [kind, greedy ? "best" : bonus ? "sampled +" : "drawn"]]]);
  return html`
    ${outcomeLine(words, bonus && "bonus")} ${probs ? probabilityPicture(probs, marks, false) : nothing}
    ${probs?.scale === "before_argmax" ? note(ARGMAX) : nothing}
  `;
}

const FORMS = {
  greedy: greedyForm,
  deterministic: deterministicForm,
  block: blockForm,
  token: uniformForm,
  rrsw: uniformForm,
  ...Object.fromEntries(LOSSY.map((rule) => [rule, lossyForm])),
};
