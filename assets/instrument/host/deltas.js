// Events of the run that is shown, each once and in order: a hidden tab may lose deltas, and others overtake each other.

const number = (run) => Number(String(run).slice(1)) || 0; // the host numbers runs

export class RunLog {
  /** `fetchRest(from)` asks the host for the events from that place on. */
  constructor(fetchRest) {
    this.fetchRest = fetchRest;
    this.runs = [{ run: "", have: 0 }]; // the one that is shown, and behind it one that has no event yet
  }

  /** True where a delta's run came later than those that are here: it takes their place once it has an event. */
  begins(run) {
    if (number(run) <= number(this.runs.at(-1).run)) return false;
    this.runs = [...this.runs.filter(({ have }) => have), { run, have: 0 }];
    return true;
  }

  /** What is new in a delta, before which the run had `seq` events; null for one that comes too early or too late. */
  fresh({ run, seq, ev, state }) {
    const newest = this.runs.at(-1);
    if (run !== newest.run || seq + ev.length < newest.have) return null;
    if (seq > newest.have) {
      this.fetch();
      return null;
    }
    const events = ev.slice(newest.have - seq);
    newest.have = seq + ev.length;
    if (newest.have) this.runs = [newest];
    else if (state === "done" && this.runs.length > 1) this.runs.pop(); // it was refused
    return events;
  }

  /** What is asked for may be older than a delta that comes before it: then it is asked for once more. */
  async fetch() {
    this.lacks = true;
    if (this.fetching) return;
    this.fetching = true;
    while (this.lacks) {
      this.lacks = false;
      await this.fetchRest(this.runs.at(-1).have);
    }
    this.fetching = false;
  }
}
