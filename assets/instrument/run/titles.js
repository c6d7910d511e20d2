// What a lane is called, and what must be read beside its speed.

import { LOSSY } from "../base/rules.js";

let titles = {}; // drafter -> its title, once the engine has said

export function nameDrafters(known) {
  titles = known;
}

export const drafterTitle = (drafter) => titles[drafter] || drafter;

const OWN = "draftscope"; // the engine behind this page, as a lane beside servers
const SIZES = ["shape", "tree_nodes", "gamma"]; // options that say how large a draft is

/** The drafter, and the settings that shape its drafts. */
export const laneTitle = (lane) =>
  lane.start && (lane.start.fork || lane.start.server) ? `${lane.name} · ${titleOf(lane)}` : titleOf(lane);

/** The same, of the drafter alone. */
export function titleOf(lane) {
  if (!lane.start) return lane.name;
  if (lane.start.server && lane.start.server.program !== OWN) return serverTitle(lane.start.server);
  const { drafter, title, settings: s = {} } = lane.start;
  const name = title || drafterTitle(drafter);
  const size = sizeOf(lane.start);
  if (!s[size]) return name;
  if (size === "shape") return `${name} · ${s.shape.join(", ")}`;
  if (size === "tree_nodes") return `${name} · ${s.tree_nodes} nodes`;
  return `${name} · γ ${s.draft_length && s.draft_length !== "fixed" ? "≤ " : ""}${s.gamma}`;
}

/** The option that sizes the drafts: as the engine says, or in an older trace the first that was given. */
const sizeOf = ({ sized_by, settings = {} }) => sized_by ?? SIZES.find((name) => settings[name]);

/** The program, as far as it says what it is. */
const serverTitle = ({ title, program, version }) =>
  [title || program || "no answer", version].filter(Boolean).join(" ");

/**
 * The real model shapes whose memory traffic and arithmetic were added to the lane's models; speeds are then theirs.
 */
export const emulatedOf = (lane) =>
  [...new Set((lane.start ? lane.start.models : []).map((m) => m.emulates).filter(Boolean))].join(" + ");

/**
 * What must be read beside a lane's speed: costs that are not its models' own, an acceptance that no drafter earned.
 */
export const caveatsOf = (lane) =>
  [
    lane.start && lane.start.fork ? "fork" : "",
    emulatedOf(lane) ? `emulated size: ${emulatedOf(lane)}` : "",
    lane.start && lane.start.synthetic ? "synthetic: chosen acceptance" : "",
    lossyBadge(lane.start),
  ].filter(Boolean);

/** The badge of a run whose text does not follow the target's distribution, or of which only its drafter says so. */
export const lossyBadge = (start) =>
  !start || start.exact
    ? start && start.unchecked
      ? "exact: unchecked"
      : ""
    : `lossy${LOSSY.includes(start.rule) ? `: ${start.rule}` : ""}`;
