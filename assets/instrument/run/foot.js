// The line under a lane: how far it has come, and in what time.

import { counted, formatMs } from "../base/format.js";
import { titleOf } from "./titles.js";

const GUESSES = 100; // of them not one is accepted
const LONG = 256; // tokens of a prompt whose reading has a bar

/** `state` is what `stateAt(lane, now)` says. */
export function footText(lane, state, now) {
  if (isReading(lane)) return `reading the prompt: ${lane.prefill.tokens} of ${counted(toRead(lane), "token")}`;
  const parts = [counted(state.tokens, "token"), counted(state.rounds, "pass", "passes")];
  const fork = lane.start && lane.start.fork;
  if (fork)
    parts.unshift(
      `forked from ${titleOf(lane)}${fork.lane.startsWith("fork ") ? `, ${fork.lane}` : ""} in round ${fork.round + 1}, ${fork.forced ? "with a token of your choice" : `seed ${lane.start.seed}`}`,
    );
  if (!lane.end || now < lane.clock) parts[fork ? 1 : 0] += " so far";
  else if (lane.end.reason === "eos") parts.push("ended at the end-of-text token");
  else if (lane.end.reason === "stop") parts.push("ended at a stop string");
  else if (lane.end.reason === "cancelled" && fork) parts.push("stopped");
  if (fork) parts.push("its clock starts at 0 at the fork");
  const unhelpful = unhelpfulWords(lane, now);
  if (unhelpful) parts.push(unhelpful);
  if (state.spent)
    parts.push(
      lane.prefill
        ? `${formatMs(state.spent)}, ${formatMs(lane.prefill.end)} for the prompt`
        : `${formatMs(state.spent)}, the prompt read in the first`,
    );
  return parts.join(" · ");
}

/** Tokens of the prompt that are read before the first round, which reads the last one. */
const toRead = ({ start }) => (start ? start.prompt_tokens - 1 : 0);

/** The prompt is being read: some of it has been, as far as the record goes. */
const isReading = (lane) => Boolean(lane.prefill) && lane.prefill.tokens < toRead(lane) && !lane.end;

/** How much of the prompt has been read by `now`, from 0 to 1: while a long one is. Else null. */
export function readShare(lane, now) {
  if (!lane.prefill || toRead(lane) < LONG) return null;
  if (isReading(lane)) return lane.prefill.tokens / toRead(lane);
  return now < lane.prefill.end ? now / lane.prefill.end : null;
}

/** What has become of the prompt before there is a token. */
export function promptWords(lane, now) {
  const read = lane.prefill ? lane.prefill.tokens : 0;
  const whole = lane.prefill && read >= toRead(lane);
  if (whole && now >= lane.prefill.end) return "The prompt has been processed; no token yet.";
  if (lane.end && !whole) return "No token yet.";
  return read && !whole ? `Reading the prompt: ${read} of ${counted(toRead(lane), "token")}.` : "Reading the prompt.";
}

/** Where a draft model or a head drafts at random: none of its first guesses is accepted. As `trace/unhelpful.py`. */
function unhelpfulWords(lane, now) {
  const { models = [], synthetic } = lane.start || {};
  const head = models.some((m) => m.role === "head");
  if (synthetic || !(head || models.some((m) => m.role === "draft"))) return "";
  let drafted = 0;
  for (const round of lane.rounds) {
    if (round.end > now || round.accepted) return "";
    drafted += round.drafted;
    if (drafted >= GUESSES)
      return `none of the first ${drafted} guesses was accepted: ${head ? "ask draftscope inspect about the head" : "choose another draft model"}`;
  }
  return "";
}

/** A server's lane: what was seen from here. */
export function servedText(lane, state, now) {
  const parts = [`${counted(state.tokens, "token")} in ${counted(state.rounds, "burst")}`];
  if (!lane.end || now < lane.clock) parts[0] += " so far";
  else if (lane.end.reason === "error") return lane.end.message || "The server failed.";
  else if (lane.end.reason === "cancelled") parts.push("stopped");
  const first = lane.rounds[0];
  if (state.rounds) parts.push(`TTFT ${formatMs(first.end)}`);
  const rest = state.tokens - (first ? first.emitted.length : 0);
  if (rest > 0) parts.push(`TPOT ${formatMs((state.spent - first.end) / rest)}`);
  return [...parts, "seen from here"].join(" · ");
}
