// A forecast in sentences. Pure.

import { counted } from "../../../base/format.js";

const banded = ({ middle, low, high }) => `${middle.toFixed(2)} [${low.toFixed(2)}, ${high.toFixed(2)}]`;
const whole = (value) => Math.round(value).toLocaleString("en");

/** Turn it on or leave it off, where the whole interval says so. */
export function verdict({ speedup }) {
  const times = `${banded(speedup)} times plain decoding`;
  if (speedup.low > 1) return `It should pay: ${times}.`;
  if (speedup.high < 1) return `It should not pay: ${times}.`;
  return `Measure first: ${times}, which may be a loss.`;
}

/** What was asked, where a round's time goes, the rates, where it stops paying, and how well that is known. */
export function sentences(result, { text }) {
  const { target, plan, on, n, context, answer, tau, known } = result;
  const billions = (target.parameters / 1e9).toFixed(1);
  const rest = result.roundMs - result.draftingMs - result.verifyMs;
  const tokens = Object.fromEntries(Object.entries(result.tokens).map(([end, rate]) => [end, whole(rate)]));
  return [
    `${target.name}, ${billions} billion weights, on ${on.tensor * on.stages} x ${on.card.name} with ${on.engine.name}; ` +
      `${plan.kind}, ${counted(plan.steps, "draft step")}, ${counted(plan.rows, "token")} to check at once; ` +
      `${counted(n, "concurrent request")}, ${whole(context)} tokens of context each` +
      `${answer ? `; answers of ${counted(answer, "token")}, with reading their prompts` : ""}.`,
    `A round writes ${banded(tau)} tokens (tau${known ? "" : `, estimated for ${text}`}) and costs as much as ` +
      `${(result.roundMs / result.plainMs).toFixed(2)} steps of plain decoding.`,
    `A step of plain decoding takes ${result.plainMs.toFixed(2)} ms and a round ${result.roundMs.toFixed(2)}: drafting ` +
      `${result.draftingMs.toFixed(2)}, verifying ${result.verifyMs.toFixed(2)}, the engine ${rest.toFixed(2)}.`,
    `Tokens a second, all requests together: ${whole(result.plainTokens)} plain, ${tokens.middle} ` +
      `[${tokens.low}, ${tokens.high}] with ${plan.kind}.`,
    stops(result),
    result.held ||
      "Outside the published record: no row of this drafter, server and card. Measure before you rely on it.",
  ];
}

function stops({ stopsAt, fits }) {
  if (!stopsAt || stopsAt.middle > fits)
    return `It does not stop paying within ${whole(fits)} requests, which fit the memory.`;
  const high = stopsAt.high === null ? "above 4,096" : stopsAt.high;
  return `It stops paying at ${stopsAt.middle} [${stopsAt.low}, ${high}] concurrent requests; the memory holds ${whole(fits)}.`;
}
