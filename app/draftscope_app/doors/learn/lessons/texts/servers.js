// Lesson: what a server counts, what is seen from here, and what only its target's probabilities show.

import { counted, formatFigure, formatProb } from "../../../../base/format.js";
import { auditCard } from "../../../../servers/audit-card.js";
import { html } from "../../../../vendor/lit-html.js";
import { atEnd, token } from "../telling.js";

const nats = (x) => `${formatFigure(Math.abs(x))} nats ${x < 0 ? "below" : "above"}`;

/** The server whose audit found a difference, or else the last one; and the first one, which decodes plainly. */
function pairOf(store) {
  const different = store.audits.find((audit) => audit.different) || store.audits[store.audits.length - 1];
  const lane = store.lanes.find(({ name }) => name === different.server);
  return { plain: store.lanes[0], lane, audit: different };
}

const programOf = ({ start }) => [start.server.program, start.server.version].join(" ");

const acceptedWords = ({ accepted, drafted }) =>
  `${accepted} of ${drafted} drafted tokens were accepted${accepted ? ` (${formatProb(accepted / drafted)})` : ""}`;

const rarely = (p) =>
  p > 0 ? `once in ${Math.round(1 / p).toLocaleString("en", { maximumSignificantDigits: 2 })} times` : "never";

/** The place of the token that the target finds least probable. */
const strangest = (lane) => lane.forced.p.indexOf(Math.min(...lane.forced.p));

function atStrangest(host, lane) {
  host.cursor.select(lane, lane.tokens[strangest(lane)].round);
}

/** The cards of the recorded audits, as the Servers view shows them. */
const auditCards = (store) =>
  html`<div class="audits">${store.audits.map((audit) => auditCard(audit, { state: "done" }, false))}</div>`;

function steps(store) {
  const { plain, lane, audit } = pairOf(store);
  const at = strangest(lane);
  const low = (one) => rarely(Math.min(...one.forced.p));
  return [
    {
      show: "lanes strip",
      act: atEnd,
      say: [
        `Two servers (${programOf(lane)}) with the same [[target]]. “${plain.name}” decodes plainly; “${lane.name}” uses a drafter. Both got the same prompt tokens, seed and temperature, in turns. From here one sees when tokens arrive, in [[burst|bursts]]: ${counted(plain.rounds.length, "burst")} for ${counted(plain.tokens.length, "token")}, and ${counted(lane.rounds.length, "burst")} for ${counted(lane.tokens.length, "token")}.`,
      ],
    },
    {
      show: "measured",
      act: atEnd,
      say: `What a server did inside, it has to say itself. “${lane.name}” counts: ${acceptedWords(lane.served)}. Neither these counters nor the times tell whether its text still follows the target's [[distribution]].`,
    },
    {
      show: "reconstructed",
      act: (host) => atStrangest(host, lane),
      say: [
        `Whoever has the weights can compute p of every token: one [[forward]] over prompt and answer, called [[teacher forcing]]. The least probable token of “${lane.name}” is `,
        token(lane.rounds[lane.tokens[at].round].emitted_raw[at - lane.rounds[lane.tokens[at].round].firstToken]),
        `: the target samples it there ${low(lane)}, and the least probable one of “${plain.name}” ${low(plain)}. One such token proves nothing: improbable tokens are sampled too, as often as p says.`,
      ],
    },
    {
      show: "measured",
      act: atEnd,
      say: `So compare all tokens with what the target expects of its own: on average log p is ${nats(lane.forced.log_p)} that expectation for “${lane.name}”, and ${nats(plain.forced.log_p)} it for “${plain.name}”. Near 0 is right.`,
    },
    {
      show: "none",
      figure: auditCards,
      say: [
        `An [[audit]] asks for text after text until the answer is clear, with a false alarm at most once in ${Math.round(1 / audit.false_alarm).toLocaleString("en")}, however often one looks. `,
        `Of “${lane.name}” it took ${counted(audit.texts, "text")}: ${audit.different ? "it differs from its target." : "no difference found."}`,
      ],
    },
  ];
}

export const lesson = {
  title: "A server and its target",
  about: "what it counts, what is seen from here, and what only an audit shows",
  trace: "servers",
  steps,
  last: { show: "none", figure: auditCards },
  question: (store) =>
    `Would greedy texts or the counters have shown what the audit of “${pairOf(store).lane.name}” found?`,
  answer: (store) => {
    const { lane, audit } = pairOf(store);
    const same = /greedy is identical( except at [^.]*)?/.exec(audit.verdict);
    const greedy = same
      ? `No: its greedy texts are the target's, token by token${same[1] ? `,${same[1]}` : ""}. `
      : "Its greedy texts differ from the target's as well. ";
    return `${greedy}The counters only say that ${acceptedWords(lane.served)}, which a poor draft would explain just as well. The audit's verdict: ${audit.verdict}`;
  },
  attempt: {
    words:
      "“draftscope servers MODEL” prints how to start a plain and a drafting server. Add both under “Servers” and press Audit; it samples at the temperature of the controls.",
    controls: { temperature: 1 },
  },
};
