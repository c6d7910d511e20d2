// What the lessons say. A lesson is {title, about, trace, steps(store), question(store), answer(store), attempt}; a step is
// {show: pictures, act(host), say, figure(store)}.
//
// Pure but for `act`, which moves the page's own selection. No figure and no token is written here: all are folded from
// the lesson's recording (app/draftscope_app/record_lessons.py), and a step whose event did not happen is left out.

import { given } from "../base/given.js";
import { h } from "../base/dom.js";
import { counted, formatFigure, formatMs, formatProb, median, visible } from "../base/format.js";
import { costsOf, isChain, jitterOf } from "../base/numbers.js";
import { beatsOf } from "../base/stages.js";
import { compareTokens, draftLane, draftTotals, meanRound, plainLane, slotRaw, tellingRound } from "../base/store.js";
import { arrivalPicture, arrivalsOf, byRows, copiesOf, copyPicture, gapsOf, rowBars } from "./figures.js";
import { byPlace, prefetchPicture, prefetchedOf, proposalsOf, proposePicture, worthPicture } from "./propose.js";
import { batchPicture, belowWords, byBatch, byLength, forwardsAt, lengthPicture } from "./sweep.js";
import { laneTitle } from "../run/titles.js";

const TERMS = {
  target: "the large model, whose law p decides what may be written",
  draft: "the small, fast model, or whatever else proposes tokens; its law is q",
  oracle: "a drafter that knows the text to come; it shows what the hardware allows, not what a model can guess",
  forward: "one pass through all layers of a model",
  rows: "the tokens that one forward reads side by side; each gets its own law of what follows it",
  round: "one draft, one forward of the target over it, one verdict",
  law: "the probabilities of all tokens at one place",
  coin: "a number drawn evenly between 0 and 1, used once",
  threshold: "what the coin is compared with: below it the draft stands",
  residual: "what p holds above q, scaled to a law",
  correction: "the target's token in the place of a rejected draft, drawn from the residual",
  bonus: "the target's token below a draft that stood to its end",
  scouts: "rows that are computed for what they show and can never be accepted",
  head: "a small network that reads the target's hidden states and proposes tokens",
  "hidden state": "what a layer of the target has worked out at one token, before it becomes a law",
  outcome: "how many drafted tokens stand, and which token comes behind them",
  mask: "which rows see which: each sees the text so far, its ancestors and itself",
  ITL: "",
  ICL: "",
  TTFT: "",
  "acceptance length": "",
};
const METRICS = { ITL: "itl_ms", ICL: "icl_ms", TTFT: "ttft_ms", "acceptance length": "mean_acceptance_length" };

/** A term's meaning; of metrics, the engine's own glossary. */
export const defineTerm = (term) => TERMS[term] || given.metrics[METRICS[term]] || "";
export const LESSON_TERMS = Object.keys(TERMS);

// Words for what a recording holds.

const token = (raw) => h("code", { text: visible(raw) });
const listed = (raws) => raws.flatMap((raw, i) => (i ? [" ", token(raw)] : [token(raw)]));
const equals = (x) => formatProb(x).replace(/^(?![<>])/, "= "); // "= .81", but "<.001"
const times = (x) => `${formatFigure(x)} times`;
const sum = (values) => values.reduce((total, x) => total + x, 0);
const nodeOf = (round, id) => round.nodes.find((n) => n.id === id);
const overlap = (laws) => sum(laws.p.map((p, i) => Math.min(p, laws.q[i]))) + (laws.rest_min || 0);
const perRound = (lane) => lane.tokens.length / lane.rounds.length;
const atEnd = (host) => host.transport.toEnd();

/** Every judged child of a lane, with where it was judged. */
const judged = (lane) =>
  lane.rounds
    .filter((r) => !r.cut)
    .flatMap((round) =>
      round.decisions.flatMap((contest) =>
        contest.children.map((child, i) => ({ round, contest, child, i, node: nodeOf(round, child.node) })),
      ),
    );

/** The page at a child's contest, before its coin has fallen (`after` 0) or once it has. */
function atChild(host, lane, { round, contest, node }, after) {
  host.cursor.select(lane, round.index);
  host.cursor.toBeat(beatsOf(round).findIndex((beat) => beat.nodes.includes(node.id)) - 1 + after);
  host.cursor.point(contest.slot, node.id);
}

/** The page at a child's contest when all of its round is known. */
function atEndOf(host, lane, { round, contest, node }) {
  atStage(host, lane, round, "commit");
  host.cursor.point(contest.slot, node.id);
}

function atStage(host, lane, round, stage) {
  host.cursor.select(lane, round.index);
  host.cursor.toStage(stage);
}

// One at a time.

function rowSteps(store) {
  const plain = plainLane(store);
  const rows = byRows(store);
  const most = rows.has(8) ? 8 : Math.max(...rows.keys());
  const others = store.lanes.filter((lane) => lane !== plain);
  const same = others.every((lane) => compareTokens(lane, plain).equal === compareTokens(lane, plain).over);
  return [
    {
      show: "strip",
      act: atEnd,
      say: [
        `Plain decoding writes one token with each [[forward]] of the [[target]]: ${counted(plain.rounds.length, "forward")} for ${counted(plain.tokens.length, "token")}, ${formatMs(rows.get(1).ms)} each.`,
      ],
    },
    {
      show: "strip",
      act: atEnd,
      say: [
        `The lanes below it were handed drafts by an [[oracle]], so that one forward could check several [[rows]] at once. They needed ${others.map((lane) => lane.rounds.length).join(", ")} forwards for ${same ? "the very same text" : "a text of that length"}.`,
      ],
    },
    {
      show: "none",
      figure: rowBars,
      say: [
        `And what does a forward over more rows cost? Over ${most} rows it took ${times(rows.get(most).ms / rows.get(1).ms)} as long as over one. Weights are read once and operations are started once, however many rows share them.`,
      ],
    },
  ];
}

// Scout and judge.

function roundSteps(store) {
  const [lane, plain] = [draftLane(store), plainLane(store)];
  const round = tellingRound(lane);
  const steps = round.timings.propose.slice(0, -1);
  const raws = round.nodes.map((n) => n.raw);
  const { equal, over } = compareTokens(lane, plain);
  const kept = round.emitted_raw.slice(0, round.accepted);
  const at = (stage) => (host) => atStage(host, lane, round, stage);
  return [
    {
      show: "tree scale",
      act: at("draft"),
      say: [
        "One [[round]]. The [[draft]] goes ahead: ",
        listed(raws),
        `, ${counted(steps.length, "forward")} of the small model, ${formatMs(sum(steps))} together. Nobody knows yet what they are worth.`,
      ],
    },
    {
      show: "tree scale",
      act: at("verify"),
      say: [
        `The [[target]] reads them all in one forward over ${round.width} [[rows]]: ${formatMs(round.timings.verify)}. By itself it takes ${formatMs(meanRound(plain))} for each single token.`,
      ],
    },
    {
      show: "tree scale",
      act: at("judge"),
      say: [
        `It keeps drafts for as long as they are what it would have written: ${round.accepted} of ${round.drafted}`,
        kept.length ? [": ", listed(kept)] : "",
        ".",
      ],
    },
    {
      show: "tree scale",
      act: at("commit"),
      say: [
        "And since its forward says what comes next in any case, it adds a token of its own, ",
        token(round.last.raw),
        `. ${counted(round.emitted.length, "token")} in ${formatMs(round.end - round.start)}, where plain decoding takes ${formatMs(round.emitted.length * meanRound(plain))}.`,
      ],
    },
    {
      show: "lanes strip",
      act: atEnd,
      say: [
        `Round after round: ${counted(lane.rounds.length, "target forward")} for ${counted(lane.tokens.length, "token")}. Nothing of the text is the draft's: ${equal} of ${over} tokens are those of plain decoding.`,
      ],
    },
  ];
}

// The coin.

const open = ({ child }) => child.threshold > 0.15 && child.threshold < 0.85;

function coinCases(lane) {
  const all = judged(lane);
  return {
    passed: all.find((c) => open(c) && c.child.passed),
    fell: all.find((c) => open(c) && !c.child.passed),
    certain: all.find((c) => c.child.threshold === 1 && c.child.p > c.child.q),
  };
}

function coinSteps(store) {
  const lane = draftLane(store);
  const { passed, fell, certain } = coinCases(lane);
  const law = (c) => `q ${equals(c.child.q)}, and p ${equals(c.child.p)}`;
  const steps = [passed, fell].filter(Boolean).flatMap((c) => [
    {
      show: "tree contest",
      act: (host) => atChild(host, lane, c, 0),
      say: [
        "The draft drew ",
        token(c.node.raw),
        ` with ${law(c)}: the [[target]] finds it less likely than the draft did. Will it stand? Say so before you go on.`,
      ],
    },
    {
      show: "tree contest",
      act: (host) => atChild(host, lane, c, 1),
      say: [
        `The [[threshold]] is p/q ${equals(c.child.threshold)}. The [[coin]] fell at ${formatProb(c.child.uniform)}: `,
        c.child.passed ? "below it, so the draft stands." : "above it, so the draft is rejected.",
        correction(c),
      ],
    },
  ]);
  return [
    ...steps,
    certain && {
      show: "tree contest",
      act: (host) => atChild(host, lane, certain, 1),
      say: [
        "Here ",
        token(certain.node.raw),
        ` had ${law(certain)}. The ratio is above 1, and no coin can reject it: a draft is punished only where it is surer than the target.`,
      ],
    },
    fell && {
      show: "contest",
      act: (host) => atChild(host, lane, fell, 1),
      say: [
        `Before any token was drawn here, one would stand with the chance that both laws share: the solid area, α ${equals(overlap(fell.contest.distributions[0]))}. The hatched areas are equally large: what the draft offers too often is rejected, and what it offers too seldom comes back as the [[residual]]. So the text keeps the law p.`,
      ],
    },
  ];
}

function correction({ round, contest }) {
  if (round.last.slot !== contest.slot || round.last.kind !== "correction") return "";
  return [" In its place comes a [[correction]], ", token(round.last.raw), ", drawn from what p holds above q."];
}

// The bonus.

const whole = (lane) =>
  lane.rounds.find((r) => r.last.kind === "bonus" && !r.cut && r.nodes.length === r.depth && r.depth > 1);

function bonusSteps(store) {
  const lane = draftLane(store);
  const round = whole(lane);
  if (!round) return [];
  const at = (slot) => (host) => {
    host.round.show("mask");
    atStage(host, lane, round, "commit");
    host.cursor.point(slot, slot);
  };
  const before = slotRaw(lane, round, -1).text;
  const rows = round.nodes.map((node, i) => ({
    show: "tree contest",
    act: at(node.parent),
    say: [
      `Row ${i + 1} read `,
      i ? token(round.nodes[i - 1].raw) : h("code", { text: before }),
      i ? "" : ", the last token of the text",
      ". Its [[law]] says what may follow, and so it judged ",
      token(node.raw),
      `: p ${equals(node.p)}.`,
    ],
  }));
  const last = round.nodes[round.nodes.length - 1];
  return [
    ...rows,
    {
      show: "tree contest",
      act: at(last.id),
      say: [
        `Row ${round.width} read the last draft, `,
        token(last.raw),
        ". There is nothing left for its law to judge, and it is already paid for: the target draws ",
        token(round.last.raw),
        " from it, the [[bonus]].",
      ],
    },
    {
      show: "tree scale",
      act: (host) => {
        host.round.show("tree");
        atStage(host, lane, round, "commit");
      },
      say: [
        `${counted(round.drafted, "draft")}, ${counted(round.width, "law")}, ${counted(round.emitted.length, "token")}: one forward of the target.`,
      ],
    },
  ];
}

// The wrong scout.

function worst(lane) {
  const fallen = judged(lane).filter((c) => !c.child.passed && c.child.q !== undefined && c.contest.distributions[0].q);
  return fallen.sort((a, b) => b.child.q - b.child.p - (a.child.q - a.child.p))[0];
}

function wrongSteps(store) {
  const [lane, plain] = [draftLane(store), plainLane(store)];
  const { accepted, drafted } = draftTotals(lane, lane.rounds.length);
  const pace = costsOf(lane, plain);
  const bad = worst(lane);
  return [
    {
      show: "strip",
      act: atEnd,
      say: [
        `A poor [[draft]]: ${accepted} of its ${drafted} tokens stood.`,
        pace ? ` The run went at ${times(pace.measured)} the pace of plain decoding.` : "",
      ],
    },
    bad && {
      show: "tree contest",
      act: (host) => {
        host.round.show("tree");
        atChild(host, lane, bad, 1);
      },
      say: [
        "Here it drew ",
        token(bad.node.raw),
        ` with q ${equals(bad.child.q)}, where the target has p ${equals(bad.child.p)}. Both laws share only α ${equals(overlap(bad.contest.distributions[0]))}.`,
      ],
    },
    bad && {
      show: "contest trial",
      act: (host) => atEndOf(host, lane, bad),
      say: [
        "Does so poor a draft spoil the text? Draw this token ten thousand times, once by the rule and once with its last draw taken from p itself, a mistake that looks harmless. The first settles on p, however poor the draft; the second misses it.",
      ],
    },
  ];
}

// Trees.

function treeSteps(store) {
  const [chain, tree] = [store.lanes.find(isChain), store.lanes.find((lane) => !isChain(lane))];
  const saved = judged(tree).find((c) => c.i === 1 && c.child.passed);
  const deepest = Math.max(...chain.rounds.map((r) => r.depth));
  const full = chain.rounds.filter((r) => r.depth === deepest);
  const nodes = (lane) => Math.max(...lane.rounds.map((r) => r.drafted));
  const face = (name) => (host) => {
    host.round.show(name);
    atChild(host, tree, saved, 1);
  };
  return [
    {
      show: "lanes strip",
      act: atEnd,
      say: [
        `Two lanes with drafts of ${nodes(chain) === nodes(tree) ? nodes(chain) : `${nodes(chain)} and ${nodes(tree)}`} tokens a round: a chain, and a tree. The chain wrote ${formatFigure(perRound(chain))} tokens a round, the tree ${formatFigure(perRound(tree))}.`,
      ],
    },
    {
      show: "strip",
      act: atEnd,
      say: [
        `How far does a chain get? In ${full.filter((r) => r.accepted === deepest).length} of ${full.length} rounds all ${deepest} drafts stood, in ${full.filter((r) => r.accepted > 0).length} at least the first.`,
      ],
    },
    saved && {
      show: "tree contest",
      act: face("tree"),
      say: [
        "A tree puts some of its tokens side by side. Here ",
        token(nodeOf(saved.round, saved.contest.children[0].node).raw),
        " was rejected, and its sibling ",
        token(saved.node.raw),
        " stood against what was left of the law. A chain would have ended here.",
      ],
    },
    saved && {
      show: "tree",
      act: face("mask"),
      say: [
        "All of it is still one forward. The [[mask]] keeps siblings apart: each row sees the text so far, its ancestors and itself. Point at a row to see whom it sees.",
      ],
    },
  ];
}

// Heads.

function headSteps(store) {
  const plain = plainLane(store);
  const one = median(plain.rounds.map((r) => r.timings.verify));
  const at = Object.fromEntries(
    proposalsOf(store).map(({ lane, round }) => [
      lane.start.drafter,
      { lane, round, steps: round.timings.propose.slice(0, -1), ms: sum(round.timings.propose) },
    ]),
  );
  const { draft, medusa, eagle3, block } = at;
  const face =
    ({ lane, round }) =>
    (host) => {
      host.round.show("tree");
      atStage(host, lane, round, "draft");
    };
  const step = (own, say) => own && { show: "tree", figure: proposePicture, act: face(own), say };
  const paces = Object.values(at)
    .map(({ lane }) => ({ lane, costs: costsOf(lane, plain) }))
    .filter(({ costs }) => costs)
    .sort((a, b) => b.costs.measured - a.costs.measured);
  return [
    step(
      draft,
      draft && [
        `${counted(Object.keys(at).length, "drafter")}, to scale. The [[draft]] model needs ${counted(draft.steps.length, "forward")} for ${counted(draft.round.drafted, "token")}, one behind the other, since each reads the token before it: ${formatMs(draft.ms)}, ${times(draft.ms / one)} as long as the target takes for a row.`,
      ],
    ),
    step(
      medusa,
      medusa && [
        `Medusa has no model of its own. Its [[head|heads]] read one [[hidden state]], that from which the target wrote its last token, and guess a place each: ${counted(medusa.steps.length, "forward")} for ${counted(medusa.round.drafted, "token")}, ${formatMs(medusa.ms)}. No head knows what the others drew.`,
      ],
    ),
    step(
      eagle3,
      eagle3 && [
        `EAGLE-3 is one layer over [[hidden state|hidden states]] from several depths of the target. It goes token by token again, ${counted(eagle3.steps.length, "step")}, ${formatMs(eagle3.ms)}: each step sees what the one before it drew.`,
      ],
    ),
    step(
      block,
      block && [
        `A block drafter reads all places at once, still empty, beside the [[hidden state|hidden states]] of the whole text: ${counted(block.steps.length, "forward")} for ${counted(block.round.drafted, "token")}, ${formatMs(block.ms)}. Its tokens do not see each other either.`,
      ],
    ),
    paces.length && {
      show: "none",
      figure: worthPicture,
      say: [
        `A cheap proposal has to stand, too. Against plain decoding these lanes ran at ${paces.map(({ lane, costs }) => `${formatFigure(costs.measured)} (${laneTitle(lane)})`).join(", ")} times the pace.`,
      ],
    },
  ];
}

// Looking ahead.

const drafting = (store, drafter) => store.lanes.find((lane) => lane.start.drafter === drafter);
const longest = (lane) =>
  copiesOf(lane)
    .filter((c) => !c.round.cut)
    .sort((a, b) => b.accepted - a.accepted || b.length - a.length)[0];
const width = (lane) => sum(lane.rounds.map((r) => r.width)) / lane.rounds.length;

function aheadSteps(store) {
  const [copying, guessing, ahead, plain] = [
    drafting(store, "ngram"),
    drafting(store, "lookahead"),
    drafting(store, "ssd"),
    plainLane(store),
  ];
  const best = longest(copying);
  const scouting = guessing.rounds.find((r) => !r.cut && r.nodes.some((n) => n.fate === "never_accepted"));
  const scouts = scouting ? scouting.nodes.filter((n) => n.fate === "never_accepted").length : 0;
  const pace = (lane) => {
    const costs = costsOf(lane, plain);
    return costs ? `, at ${times(costs.measured)} the pace of plain decoding` : "";
  };
  const face = (name, round, lane) => (host) => {
    host.round.show(name);
    atStage(host, lane, round, "commit");
  };
  return [
    {
      show: "none",
      figure: () => copyPicture(copying),
      say: [
        `A draft without a second model: copy what followed when the same tokens last stood. Each arc leads from a draft back to its source; ${copiesOf(copying).filter((c) => c.accepted).length} of ${copiesOf(copying).length} copies held for at least a token.`,
      ],
    },
    best && {
      show: "tree contest",
      act: face("tree", best.round, copying),
      say: [
        best.length > 1 ? `Here the last ${best.length} tokens` : "Here the last token",
        ` had stood before, in front of token ${best.from}, and what followed there is drafted: `,
        listed(best.round.nodes.map((n) => n.raw)),
        `. ${best.accepted} of ${best.round.drafted} are what the target writes.`,
      ],
    },
    scouting && {
      show: "tree",
      act: face("mask", scouting, guessing),
      say: [
        `The target can also guess for itself. Of this forward's ${scouting.width} [[rows]], ${scouts} are [[scouts]]: guesses at tokens further ahead, which are never accepted. What they turn out to be followed by is kept, and becomes a draft in a later round.`,
      ],
    },
    ...preparedSteps(ahead, plain),
    {
      show: "lanes strip",
      act: atEnd,
      say: [
        `Copies wrote ${formatFigure(perRound(copying))} tokens a round${pace(copying)}, with ${formatFigure(width(copying))} rows in a forward; guesses ${formatFigure(perRound(guessing))}${pace(guessing)}, with ${formatFigure(width(guessing))} rows; drafts prepared ahead ${formatFigure(perRound(ahead))}${pace(ahead)}.`,
      ],
    },
  ];
}

/** The third way to look ahead: drafting while the target verifies. */
function preparedSteps(lane, plain) {
  const all = prefetchedOf(lane);
  if (!all.length) return [];
  const [hits, misses] = [true, false].map((hit) => all.filter(({ note }) => note.hit === hit));
  const took = (own) => formatMs(median(own.map(({ propose }) => propose)));
  const after = [
    hits.length ? `the next proposing then took ${took(hits)}` : "",
    misses.length ? `after a miss ${took(misses)}` : "",
  ]
    .filter(Boolean)
    .join(", ");
  const verify = (own) => formatMs(median(own.rounds.map((r) => r.timings.verify)));
  return [
    {
      show: "none",
      figure: () => prefetchPicture(lane),
      say: [
        `A draft model can also look ahead in time. While the target verifies, it drafts behind ${all[0].note.outcomes} possible [[outcome|outcomes]] of the round. In ${hits.length} of ${counted(all.length, "round")} what came was among them; ${after} (medians).`,
      ],
    },
    {
      show: "none",
      figure: () => prefetchPicture(lane),
      say: [
        `Drafting ahead took ${formatMs(median(all.map(({ note }) => note.busy_ms)))} a round, ${formatMs(median(all.map(({ note }) => note.waited_ms)))} of it waited for. It ran beside the target on one machine (${lane.start.device}): there the target's forward over ${formatFigure(width(lane))} rows took ${verify(lane)}, and over one row in the plain lane ${verify(plain)}.`,
      ],
    },
  ];
}

// Jitter.

function jitterSteps(store) {
  const [draft, plain] = [draftLane(store), plainLane(store)];
  const [a, b] = [jitterOf(draft), jitterOf(plain)];
  return [
    {
      show: "lanes strip",
      act: (host) => {
        host.transport.seek(0);
        host.transport.play();
      },
      say: [
        "Watch both lanes write. Plain decoding brings one token after another; a speculating lane brings a [[round|round's]] tokens all at once, and then nothing until the next.",
      ],
    },
    {
      show: "strip",
      act: atEnd,
      say: [
        `Between tokens ([[ITL]]) the median gap is ${formatMs(b.itl.p50)} in the plain lane and ${formatMs(a.itl.p50)} in the other, since ${formatFigure(perRound(draft))} tokens come together. Between rounds ([[ICL]]) it is ${formatMs(b.icl.p50)} and ${formatMs(a.icl.p50)}: fewer waits, each as long as a whole round.`,
      ],
    },
    {
      show: "none",
      figure: arrivalPicture,
      say: [
        `A display can hold tokens back and spread each round until the next one ends. The median gap is then ${formatMs(median(gapsOf(arrivalsOf(draft, true))))}, and the text still ends at ${formatMs(draft.clock)} instead of ${formatMs(plain.clock)}.`,
      ],
    },
  ];
}

// When not.

function whenSteps(store) {
  const lengths = byLength(store);
  const series = byBatch(store.sweep);
  const gamma = Math.max(...store.sweep.map((r) => r.gamma || 0));
  const batches = series[0].points.map((p) => p.x);
  const [few, many] = [batches[0], batches[batches.length - 1]].map((batch) => ({
    batch,
    ...forwardsAt(store.sweep, batch, gamma),
  }));
  const forwards = ({ batch, plain, drafting: own }) =>
    `at batch ${batch} a forward over ${counted(own.rows, "row")} took ${times(own.ms / plain.ms)} as long as plain's over ${plain.rows}`;
  const dearer = many.drafting.ms / many.plain.ms > few.drafting.ms / few.plain.ms;
  const room = dearer
    ? "The more texts share a forward, the less room it has left for guesses."
    : "On this pair and machine the rows stayed as cheap: it is elsewhere that a batch leaves guesses no room.";
  return [
    {
      show: "none",
      figure: lengthPicture,
      say: [
        `An answer may be too short. Before anything is written both models read the prompt, and the first [[round]] drafts before it verifies: after one token this run stood at ${times(lengths[0].y)} plain decoding's speed, after ${lengths.length} at ${times(lengths[lengths.length - 1].y)}. It was ${belowWords(lengths, "token")}.`,
      ],
    },
    {
      show: "none",
      figure: batchPicture,
      say: [
        `A machine may have other texts to write. Several decoded together share each forward, and their drafts are rows on top. ${series.map(({ name, points }) => `With ${name} this pair was ${belowWords(points, "batch")}`).join(". ")}.`,
      ],
    },
    {
      show: "none",
      figure: batchPicture,
      say: [
        `Why the batch matters: speculation lives on [[rows]] that cost next to nothing. With γ ${gamma}, ${forwards(few)}; ${forwards(many)}. ${room}`,
      ],
    },
  ];
}

export const LESSONS = [
  {
    title: "One at a time",
    about: "what a forward costs, and what it costs with more rows",
    trace: "rows",
    steps: rowSteps,
    last: { show: "none", figure: rowBars },
    question: () => ["Why not draft as many tokens as the target can read at once?"],
    answer: () => [
      "Rows are paid for whether or not their tokens stand, and somebody has to draft them. An oracle is always right; a real draft is wrong sooner or later, and everything behind its first mistake is thrown away.",
    ],
    attempt: {
      words: "An oracle that is right less often: lower its α and see which lengths still pay.",
      controls: { drafter: "oracle", gamma: 7, oracle_alpha: 0.7, temperature: 0 },
    },
  },
  {
    title: "Scout and judge",
    about: "one round, from draft to commit",
    trace: "round",
    steps: roundSteps,
    last: { show: "lanes strip", act: atEnd },
    question: () => ["What does a round write whose first draft is already wrong?"],
    answer: (store) => {
      const none = draftLane(store).rounds.filter((r) => r.drafted && r.accepted === 0).length;
      return [
        `One token, the target's own. A round never writes less than a plain forward; it only costs the drafting more. In this run ${none} of ${counted(draftLane(store).rounds.length, "round")} went so.`,
      ];
    },
    attempt: {
      words: "Be the draft yourself: write how the text goes on, and let the target judge it.",
      controls: { drafter: "typed", temperature: 0 },
    },
  },
  {
    title: "The coin",
    about: "above temperature 0: how chance keeps the target's law",
    trace: "coin",
    steps: coinSteps,
    last: { show: "contest" },
    question: (store) => {
      const { fell } = coinCases(draftLane(store));
      return fell
        ? [
            "In the contest above, how likely was the target to write ",
            token(fell.node.raw),
            " here, all ways to it counted?",
          ]
        : ["How likely is a token to be written, all ways to it counted?"];
    },
    answer: (store) => {
      const { fell } = coinCases(draftLane(store));
      const exact = fell ? ` Here that is ${formatProb(fell.child.p)}.` : "";
      return [
        `Exactly p. The draft offers it with chance q and it stands with min(1, p/q): together min(p, q). Where p is larger, the residual brings the rest.${exact}`,
      ];
    },
    attempt: {
      words: "Run with the token rule, press Hide the verdict, and predict round by round.",
      controls: { drafter: "draft", gamma: 3, rule: "token", temperature: 1 },
    },
  },
  {
    title: "The bonus",
    about: "why as many drafts make one law more",
    trace: "coin",
    steps: bonusSteps,
    last: { show: "tree contest" },
    question: () => ["Which row's law is left over when a draft in the middle is rejected?"],
    answer: () => [
      "None. The rows behind it read a token that is not in the text, so their laws answer a question nobody asks any more. The row in front of it gives the [[correction]] instead: one token of the target's own in every round, either way.",
    ],
    attempt: {
      words: "Draft more at once and watch how seldom the bonus is reached.",
      controls: { drafter: "draft", gamma: 10, rule: "token", temperature: 1 },
    },
  },
  {
    title: "The wrong scout",
    about: "a poor draft costs time and nothing else",
    trace: "wrong",
    steps: wrongSteps,
    last: { show: "contest trial" },
    question: () => ["What, then, does a poor draft change?"],
    answer: (store) => {
      const pace = costsOf(draftLane(store), plainLane(store));
      return [
        "Only the time",
        pace
          ? ` (here ${times(pace.measured)} plain decoding's pace, a draft forward at ${formatProb(pace.c)} of a plain round)`
          : "",
        ". Every token is still drawn from p: what the draft offers too often is rejected as often, and the residual makes up for what it offers too seldom.",
      ];
    },
    attempt: {
      words:
        "The same scout, from the target's own first layers. Its speed and the exactness card tell two different stories.",
      controls: { drafter: "early-exit", gamma: 3, rule: "token", temperature: 1 },
    },
  },
  {
    title: "Trees",
    about: "the same number of drafts, side by side",
    trace: "trees",
    steps: treeSteps,
    last: { show: "lanes strip", act: atEnd },
    question: () => ["When does the chain win against a tree of as many nodes?"],
    answer: (store) => {
      const [chain, tree] = [store.lanes.find(isChain), store.lanes.find((lane) => !isChain(lane))];
      return [
        `Where drafts nearly always stand: then depth is what is wanted, and siblings are wasted. Here the chain's drafts stood ${draftTotals(chain, chain.rounds.length).accepted} times of ${draftTotals(chain, chain.rounds.length).drafted}, the tree's ${draftTotals(tree, tree.rounds.length).accepted} of ${draftTotals(tree, tree.rounds.length).drafted}.`,
      ];
    },
    attempt: {
      words: "Change the shape, such as 4, 1 or 1, 1, 1, 1, and compare tokens a round.",
      controls: { drafter: "sampled-tree", shape: "2, 1, 1", temperature: 1 },
    },
  },
  {
    title: "Heads",
    about: "what proposing costs, and what it is worth, when it reads the target",
    trace: "heads",
    steps: headSteps,
    last: { show: "none", figure: worthPicture },
    question: () => [
      "Medusa and the block drafter take one forward for any number of tokens. Why not always draft many?",
    ],
    answer: (store) => {
      const blind = ["medusa", "block"]
        .map((name) => drafting(store, name))
        .filter(Boolean)
        .map((lane) => ({ lane, places: byPlace(lane) }))
        .filter(({ places }) => places.length > 1);
      const told = blind.map(
        ({ lane, places }) =>
          `${laneTitle(lane)}: at the first place ${places[0].stood} of ${places[0].reached}, at place ${places.length} ${places[places.length - 1].stood} of ${places[places.length - 1].reached}`,
      );
      return [
        `Their later tokens are guessed without the earlier ones, so they fit whatever might stand there and not what does; and every draft is a row that the target pays for.${told.length ? ` Here stood, of those reached: ${told.join("; ")}.` : ""}`,
      ];
    },
    attempt: {
      words: "Give the block drafter eight places, and see what proposing costs and where its tokens fall.",
      controls: { drafter: "block", gamma: 8, temperature: 0 },
    },
  },
  {
    title: "Looking ahead",
    about: "copies, the target's own guesses, and drafts made before they are asked for",
    trace: "ahead",
    steps: aheadSteps,
    last: { show: "lanes strip", act: atEnd },
    question: () => ["On what text is a copy worth least?"],
    answer: (store) => {
      const lane = drafting(store, "ngram");
      return [
        `On text that does not repeat itself: then nothing is found, or what is found goes on otherwise. A round without a draft is a plain forward and loses nothing; here ${lane.rounds.length - copiesOf(lane).length} of ${counted(lane.rounds.length, "round")} were such.`,
      ];
    },
    attempt: {
      words: "Choose another kind of text above the Run button, and see how many copies hold.",
      controls: { drafter: "ngram", gamma: 6, temperature: 0 },
    },
  },
  {
    title: "Jitter",
    about: "faster, and less even",
    trace: "round",
    steps: jitterSteps,
    last: { show: "none", figure: arrivalPicture },
    question: () => ["Does the first token come earlier, too?"],
    answer: (store) => {
      const [a, b] = [jitterOf(draftLane(store)), jitterOf(plainLane(store))];
      return [
        `The [[TTFT]] holds the prompt's reading and the first round, and that round drafts before it verifies: ${formatMs(a.ttft)} here, against ${formatMs(b.ttft)} in the plain lane. What speculation wins, it wins after that.`,
      ];
    },
    attempt: {
      words: "Draft more at once: rounds grow longer, and so do the waits between them.",
      controls: { drafter: "draft", gamma: 10, temperature: 0 },
    },
  },
  {
    title: "When not",
    about: "short answers and full batches",
    trace: "when",
    steps: whenSteps,
    last: { show: "none", figure: batchPicture },
    question: () => [
      "Two servers run this pair: one answers a single reader, one decodes as many texts at once as it can. Which of them should draft, and how much?",
    ],
    answer: (store) => [
      `As far as its own measurements say, and no further. On the machine that recorded this lesson: ${byBatch(
        store.sweep,
      )
        .map(
          ({ name, points }) =>
            `${name} ran at ${formatFigure(points[0].y)} times plain decoding's speed at batch ${points[0].x} and at ${formatFigure(points[points.length - 1].y)} times at batch ${points[points.length - 1].x}`,
        )
        .join("; ")}. Other machines have other room: draftscope bench --batch measures yours.`,
    ],
    attempt: {
      words: "Ask for eight tokens and draft as many: how much of that is left in the race?",
      controls: { drafter: "draft", gamma: 8, temperature: 0, max_new_tokens: 8 },
    },
  },
];
