// The exactness card's button: the engine's own check of this pair and drafter, and what may be said after it.
//
// Folded from `checked` events (engine/draftscope/check.py). It never says "exact": it says that no difference was found, on
// how much, and how often such a test raises a false alarm; for a lossy rule, how far its law lies from the target's.

(function (D) {
  "use strict";
  const { h } = D;
  const fits = (kept) => Array.isArray(kept.findings) && Array.isArray(kept.models) && typeof kept.verdict === "string";

  D.CheckCard = class CheckCard {
    constructor(repaint) {
      this.repaint = repaint;
      this.answer = null;
      this.done = D.kept("check", fits);
      this.go = h("button", { class: "small", type: "button", text: "Check this pair and drafter", on: { click: () => D.ask("check", null) } });
      this.stop = h("button", { class: "small", type: "button", text: "Cancel", hidden: true, on: { click: () => D.press("stop") } });
      this.progress = h("span", { class: "stated", role: "status" });
      this.result = h("div", { class: "block" });
      this.root = h("div", { class: "block check" }, h("h4", { text: "Checked on this pair" }),
        h("div", { class: "controls" }, this.go, this.stop, this.progress), this.result);
    }

    take(answer) {
      this.answer = answer;
      const last = answer.ev[answer.ev.length - 1];
      if (last && last.verdict) {
        this.done = last;
        D.keep("check", last);
      }
      if (answer.state === "done" && answer.note) D.say(answer.note);
      this.stamp = "";
      this.repaint();
    }

    get running() {
      return Boolean(this.answer) && this.answer.state !== "done";
    }

    paint(busy, drafted) {
      this.root.hidden = !D.canAsk("check");
      this.go.disabled = busy || this.running || !drafted;
      const last = this.answer?.ev[this.answer.ev.length - 1];
      const stamp = `${this.answer?.state}/${this.answer?.ev.length}/${this.done?.created}`;
      if (stamp === this.stamp) return;
      this.stamp = stamp;
      this.stop.hidden = !this.running;
      D.setText(this.progress, this.running ? progressOf(this.answer, last) : last && !last.verdict ? "cancelled: nothing is concluded" : "");
      this.result.replaceChildren(...(this.done ? told(this.done) : [h("p", { class: "sum", text: "Samples the whole loop on this machine, with its caches, masks and random streams, and holds it against the target's own law. It takes a minute or more." })]));
    }
  };

  function progressOf(answer, last) {
    if (answer.state === "queued") return answer.place > 0 ? `in the queue, ${answer.place} before you` : "in the queue";
    return last ? `${last.findings.length} of ${last.tests} tests` : "begins";
  }

  function told(done) {
    const failed = done.findings.filter((finding) => !finding.passed);
    const law = done.findings[done.findings.length - 1];
    const lossy = Number.isFinite(law?.total_variation);
    const value = failed.length ? "A difference was found" : lossy ? "differs" : "no difference found";
    const detail = failed.length ? failed.map((finding) => finding.name).join(", ")
      : lossy ? `total variation ${D.prob(law.total_variation)}, KL ${Number.isFinite(law.kl) ? `${D.figure(law.kl)} nats` : "infinite"} from the target's joint law, by design`
      : `n = ${done.samples.toLocaleString("en")} samples of the joint law, p = ${D.prob(law.p_value)}`;
    const when = String(done.created).slice(0, 16).replace("T", " ");
    return [h("p", { class: "verdict-line" }, h("b", { text: value }), `: ${detail}.`),
      h("p", { class: "sum", text: `${done.title}${done.rule ? `, rule ${done.rule}` : ""} on ${done.models.join(" + ")}, ${when} UTC. ${lossy ? `n = ${done.samples.toLocaleString("en")} samples. ` : `A right implementation fails a law test once in ${Math.round(1 / done.false_alarm).toLocaleString("en")}. `}The law test is of the next four tokens at T = 1, top-k 3, γ 3.` }),
      h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Findings of the check" }, h("table", {},
        h("thead", {}, h("tr", {}, ["", "test", "found"].map((text) => h("th", { scope: "col", text: text || "result" })))),
        h("tbody", {}, done.findings.map((finding) => h("tr", { class: finding.passed ? "" : "broken" }, h("td", { text: finding.passed ? (Number.isFinite(finding.total_variation) ? "told" : "ok") : "differs" }), h("th", { scope: "row", text: finding.name }), h("td", { text: finding.detail }))))))];
  }
})(window.Draftscope);
