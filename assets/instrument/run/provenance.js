// What ran: models, device, and the settings that shape a run.

import { counted, formatMs } from "../base/format.js";

const OWN = /^llama-draftscope-/; // the names of the models that come with the page

/** What the embedded target is good for; empty for any other model. */
export function demoWords(start) {
  const target = start.models.find((m) => m.role === "target");
  return target && OWN.test(target.name)
    ? `${size(target.parameters)} demo model: watch the mechanism, not the prose`
    : "";
}

/** What ran, in one line: models, device, and the settings that shape the run. */
export function provenance(start) {
  if (start.server) return serverProvenance(start);
  const models = start.models.map(
    (m) =>
      `${m.role}${m.name === m.role || OWN.test(m.name) ? "" : ` ${m.name}`} (${m.layers} × ${m.hidden}, ${size(m.parameters)}${m.weights ? `, ${m.weights}` : ""})`,
  );
  const cpu = /^cpu$/i.test(start.device) ? `CPU, ${counted(start.threads, "thread")}` : start.device;
  const left = start.not_applied ? [`not applied, of its generation_config: ${start.not_applied}`] : [];
  const said = [`${cpu}, ${start.dtype}`, samplingWords(start.settings || {}), `seed ${start.seed}`];
  const costs = start.costs ? [`costs that it chose by: ${start.costs}`] : [];
  return [...models, ...said, ...costs, ...left].join(" · ");
}

/** Servers of other programs: what was asked of them, and what their times are. */
function serverProvenance(start) {
  const request = [samplingWords(start.settings || {}), `seed ${start.seed}`, `${start.prompt_tokens} prompt tokens`];
  const raced = "repeats" in (start.settings || {});
  const { inside } = start.server;
  if (inside && !raced) return insideProvenance(start, request);
  const jitter = `loopback jitter ${formatMs(start.server.jitter_ms)}`;
  const same = `same token ids to each, ${inside ? "at the same moment" : "in turns"}`;
  return [...request, ...(inside ? [recordedInside(start.server)] : []), same, `times seen from here, ${jitter}`].join(
    " · ",
  );
}

/** What a recorder inside a server sent: of an earlier request it knows neither prompt nor seed. */
const insideProvenance = ({ server, prompt_tokens }, request) =>
  [
    ...(prompt_tokens ? request : [request[0], "an earlier request: its prompt and seed were not recorded"]),
    recordedInside(server),
    "the clock is the server's: a round lasts from the step before to the end of its own",
  ].join(" · ");

const recordedInside = ({ model }) => `recorded inside ${model.split("/").pop()}`;

/** What shapes the target's distribution before anything is drawn from it. */
export const samplingWords = ({ temperature, top_k, top_p, min_p }) =>
  [
    `T ${temperature ?? 0}`,
    top_k ? `top-k ${top_k}` : "",
    top_p < 1 ? `top-p ${top_p}` : "",
    min_p ? `min-p ${min_p}` : "",
  ]
    .filter(Boolean)
    .join(", ");

const size = (n) =>
  n >= 1e9
    ? `${(n / 1e9).toFixed(1)}B`
    : n >= 1e6
      ? `${(n / 1e6).toFixed(1)}M`
      : n >= 1e3
        ? `${(n / 1e3).toFixed(0)}k`
        : String(n);
