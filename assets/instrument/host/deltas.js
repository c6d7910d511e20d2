// Deltas of runs, handed on in their order: a hidden tab may lose some, and others overtake each other.

const LOST_MS = 1000; // after so long a delta that has not come is lost

export class DeltaOrder {
  /** `take(delta)` gets each in its turn; `lost()` asks the host for the whole run. */
  constructor(take, lost) {
    Object.assign(this, { take, lost });
    this.runs = new Map(); // run id -> {next, held}
  }

  /** A run begins and takes the place of all others. */
  begin(run) {
    this.runs.clear();
    this.expect(run);
  }

  /** A run begins beside them: a fork. */
  expect(run) {
    this.runs.set(run, { next: 0, held: new Map() });
  }

  /** The run from its beginning, in one delta; `seq` says how many it stands for. */
  rebuild({ run, seq }) {
    const held = this.runs.get(run)?.held || new Map();
    this.runs.clear();
    this.runs.set(run, { next: seq, held: new Map([...held].filter(([own]) => own >= seq)) });
  }

  add(delta) {
    if (!this.runs.has(delta.run) && this.isNewer(delta.run)) this.expect(delta.run); // its first delta was lost
    const order = this.runs.get(delta.run);
    if (!order) return;
    order.held.set(delta.seq, delta);
    while (order.held.has(order.next)) {
      this.take(order.held.get(order.next));
      order.held.delete(order.next++);
    }
    if (!order.held.size) return;
    setTimeout(() => order.held.size && Math.min(...order.held.keys()) > order.next && this.lost(), LOST_MS);
  }

  /** A run is over, and `sent` deltas of it were sent. */
  over(run, sent) {
    setTimeout(() => {
      const order = this.runs.get(run);
      if (order ? order.next < sent : this.isNewer(run)) this.lost();
    }, LOST_MS);
  }

  /** Runs are numbered by the host: r1, r2, ... */
  isNewer(run) {
    const number = (name) => Number(String(name).slice(1)) || 0;
    return [...this.runs.keys()].every((known) => number(known) < number(run));
  }
}
