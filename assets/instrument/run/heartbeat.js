// A lane's heartbeat: how long the reader waited for each arrival, and the middle and the worst of these waits.
//
// One arrival is one round, however many tokens it brought. Bars are as high as the wait before the arrival; all lanes
// have one scale, so that their rhythm can be compared.

import { h, s, setText } from "../base/dom.js";
import { formatMs } from "../base/format.js";
import { gapsOf, jitterOf } from "../base/numbers.js";
import { roundsAt } from "../base/store.js";

const BEATS = 24; // the last arrivals
const TALL = 18;

/** The longest gap that any lane has had by `now`: the height of the picture. */
export const longestGap = (store, now) =>
  Math.max(0, ...store.lanes.flatMap((lane) => gapsOf(lane, roundsAt(lane, now)).slice(-BEATS)));

export class Heartbeat {
  constructor() {
    this.path = s("path");
    this.words = h("span.gaps");
    this.root = h(
      "p.heartbeat",
      { title: "gap: the median time between two arrivals on the lane's own clock; one arrival is one round" },
      s(
        "svg",
        { viewBox: `0 0 ${2 * BEATS} ${TALL}`, preserveAspectRatio: "none", "aria-hidden": "true" },
        s("path.ground", { d: `M0 ${TALL - 0.5}H${2 * BEATS}` }),
        this.path,
      ),
      this.words,
    );
  }

  paint(lane, now, longest) {
    const rounds = roundsAt(lane, now);
    const stamp = `${rounds}/${longest}`;
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    const gaps = gapsOf(lane, rounds).slice(-BEATS);
    const high = (gap) => Math.max(1, ((TALL - 2) * gap) / (longest || 1)).toFixed(1);
    this.path.setAttribute("d", gaps.map((gap, i) => `M${2 * i + 1} ${TALL - 0.5}v-${high(gap)}`).join(""));
    const { p50, p99, n } = jitterOf(lane, rounds).icl;
    setText(this.words, n ? `gap ${formatMs(p50)}, 99% < ${formatMs(p99)}` : "no gap yet");
  }
}
