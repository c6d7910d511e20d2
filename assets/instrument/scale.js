// The round to scale: what its milliseconds went into, on one ruler with the plain steps that the same tokens need.
//
// The round's widths are its own measured times. The plain row repeats the plain lane's measured mean step once for each
// token that the round wrote; the label says so.

(function (D) {
  "use strict";
  const { h } = D;

  D.ScaleView = class ScaleView {
    constructor() {
      this.body = h("div", { class: "scale-body" });
      this.root = h("section", { class: "card scale" },
        h("header", { class: "card-head" }, h("div", { class: "head-text" }, h("h3", { text: "The round to scale" }),
          h("p", { class: "note", text: "measured milliseconds, one ruler for both rows" }))), this.body);
    }

    paint(store, selection) {
      const round = selection && selection.lane.rounds[selection.round];
      const plain = D.plainLane(store);
      const mean = D.meanRound(plain);
      const stamp = round ? `${selection.lane.start?.run}/${selection.lane.name}/${round.index}/${mean.toFixed(4)}` : "";
      if (stamp === this.stamp) return;
      this.stamp = stamp;
      if (!round) return this.body.replaceChildren();
      const parts = partsOf(round);
      const spent = parts.reduce((sum, part) => sum + part.ms, 0);
      const tokens = round.emitted.length;
      const compared = plain && plain !== selection.lane && Number.isFinite(mean) && tokens > 0;
      const ruler = Math.max(spent, compared ? mean * tokens : 0) || 1;
      const rows = [];
      if (compared) rows.push(row(`plain, ${D.count(tokens, "token")}`, steps(mean, tokens), ruler, `${tokens} × ${D.time(mean)} = ${D.time(mean * tokens)} (the plain lane's mean step)`));
      rows.push(row(`this round, ${D.count(tokens, "token")}`, parts, ruler, wordsOf(parts, spent)));
      this.body.replaceChildren(...rows, verdict(compared, spent, mean * tokens, tokens));
    }
  };

  function partsOf(round) {
    const t = round.timings;
    const last = t.propose.length - 1;
    const parts = t.propose.map((ms, i) => ({ ms, kind: i === last ? "other" : "draft", words: i === last ? "rest of the proposing" : `draft step ${i + 1}` }));
    parts.push({ ms: t.verify, kind: "verify", words: `target, ${D.count(round.width, "row")}`, label: `target, ${D.count(round.width, "row")} · ${D.time(t.verify)}` });
    parts.push({ ms: t.judge, kind: "other", words: "judge" }, { ms: t.commit, kind: "other", words: "commit" }, { ms: t.host, kind: "other", words: "host" });
    return parts.filter((part) => part.ms > 0);
  }

  function steps(mean, tokens) {
    return Array.from({ length: tokens }, () => ({ ms: mean, kind: "verify", words: "one plain step, mean", label: "target, 1 row" }));
  }

  function row(name, parts, ruler, words) {
    const spent = parts.reduce((sum, part) => sum + part.ms, 0);
    return h("div", { class: "scale-row" }, h("span", { class: "scale-name", text: name }),
      h("div", { class: "scale-track", role: "img", "aria-label": `${name}: ${parts.map((p) => `${p.words} ${D.time(p.ms)}`).slice(0, 12).join(", ")}` },
        h("div", { class: "scale-bar", style: { width: `${(100 * spent) / ruler}%` } },
          parts.map((part) => h("i", { class: part.kind, style: { "flex-grow": String(part.ms / spent) }, title: `${part.words}: ${D.time(part.ms)}` },
            part.label && part.ms / ruler > 0.13 ? h("span", { text: part.label }) : null)))),
      h("span", { class: "scale-words", text: words }));
  }

  function wordsOf(parts, spent) {
    const sum = (kind) => parts.filter((part) => part.kind === kind).reduce((total, part) => total + part.ms, 0);
    const drafts = parts.filter((part) => part.kind === "draft").length;
    const list = [];
    if (drafts) list.push(`${D.count(drafts, "draft step")} ${D.time(sum("draft"))}`);
    list.push(`target ${D.time(sum("verify"))}`, `judge, commit, host and the rest ${D.time(sum("other"))}`);
    return `${D.time(spent)}: ${list.join(" + ")}`;
  }

  function verdict(compared, spent, plain, tokens) {
    if (!compared) return h("p", { class: "sum" });
    const faster = spent < plain;
    return h("p", { class: "sum" }, h("b", { text: `${D.time(spent)} instead of ${D.time(plain)}` }),
      faster ? ` for ${D.count(tokens, "token")}: this round won ${D.time(plain - spent)}.` : ` for ${D.count(tokens, "token")}: this round cost ${D.time(spent - plain)} more than plain decoding.`);
  }
})(window.Draftscope);
