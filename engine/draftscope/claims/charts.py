"""The charts of the experiments, from the files that commands wrote. Each returns None where its rows are missing.

A chart is plain values: what `claims --save` writes and a page draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from draftscope.advise.what_if import answer_ratio
from draftscope.claims.saved_results import RowJson, SavedResults

LENGTHS = (4, 8, 16, 32, 64, 128, 256, 512)
SPREAD = "Points are medians over kinds of text; bars reach from the slowest kind to the fastest."
MEASURES = ("acceptance", "same most probable token")
ENDS = ("median", "low", "high")
OVER_PLAIN = "speedup over plain decoding"


@dataclass(frozen=True)
class Line:
    """Points of one series; `low` and `high` are as long as `y`, or empty where there is no interval."""

    name: str
    x: Sequence[float | str]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    modelled: bool = False  # not run
    text: Sequence[str] = ()  # more about each point


@dataclass(frozen=True)
class Chart:
    """`note` says in a sentence what is shown, and what its intervals are."""

    x: str
    y: str
    note: str
    lines: Sequence[Line]
    ratio: bool = False  # y is over plain decoding, which is 1
    log_x: bool = False
    log_y: bool = False
    joined: bool = True  # points of a series belong to one curve


def by_batch(evidence: SavedResults) -> Chart | None:
    """18: each drafter's ratio by batch."""
    note = f"Measured. {SPREAD} Plain decoding at the same batch size is 1."
    return _swept(evidence, "batch", "batch: sequences decoded together", note)


def by_context(evidence: SavedResults) -> Chart | None:
    """19: each drafter's ratio by context."""
    note = f"Measured, prefill included. {SPREAD} Plain decoding after the same prompt is 1."
    return _swept(evidence, "context", "tokens in the prompt", note)


def by_memory(evidence: SavedResults) -> Chart | None:
    """11: what each model keeps of a text: a cache that grows, or a state that does not."""
    sizes: dict[str, dict[int, int]] = {}
    for kept in (entry for bench in evidence.benches for entry in bench.get("kept", ())):
        sizes.setdefault(f"{kept['role']} {kept['model']}", {})[kept["tokens"]] = kept["bytes"]
    lines = [Line(name, sorted(row), [row[at] for at in sorted(row)]) for name, row in sizes.items() if len(row) > 1]
    note = "Computed from the models' shapes, for one text: keys and values, or a recurrent model's state."
    return Chart("tokens in the text", "bytes", note, lines, log_x=True, log_y=True) if lines else None


def by_length(evidence: SavedResults) -> Chart | None:
    """20: the advised drafter's ratio by answer length, and what was run."""
    surface = (evidence.advice or {}).get("surface")
    if evidence.advice is None or not surface or not surface.get("by_context"):
        return None
    table, chosen = surface["by_context"], surface["drafter"]
    place = min(range(len(table["contexts"])), key=lambda index: abs(table["contexts"][index] - table["prompt"]))
    tau = surface["tau"][surface["gammas"].index(table["gamma"])]
    middle, low, high = ([answer_ratio(surface, tau[end], place, n) for n in LENGTHS] for end in ENDS)
    lines = [Line(f"{chosen}, gamma {table['gamma']}, modelled", LENGTHS, middle, low, high, modelled=True)]
    for ran in evidence.advice["measured"]:
        middle, low, high = ([ran["ratio"][end]] for end in ENDS)
        lines.append(Line(f"{ran['name']}, measured", [ran["tokens"]], middle, low, high))
    note = (
        f"Modelled from measured costs, prefill and acceptance, for a prompt of {table['contexts'][place]} tokens, one "
        "reader; bars are 95% intervals. Single points were measured against plain decoding."
    )
    return Chart("tokens in the answer", OVER_PLAIN, note, lines, ratio=True, log_x=True)


def experts_speed(evidence: SavedResults) -> Chart | None:
    """21: the same settings on the dense target and on the mixture of experts."""
    pairs = evidence.dense_beside_experts()
    if not pairs:
        return None
    note = "Measured: medians and 95% intervals over runs. Each speedup is over plain decoding of its own target."
    lines = _sides(pairs, ("dense", "experts"), lambda row: f"{row['drafter']}, {_kind(row)}")
    return Chart("", OVER_PLAIN, note, lines, ratio=True, joined=False)


def experts_woken(evidence: SavedResults) -> Chart | None:
    """21: distinct experts that a verify forward reads, beside uniform routing."""
    bench = next((bench for bench in evidence.benches if bench.get("woken")), None)
    if bench is None:
        return None
    woken, target = bench["woken"], bench["machine"].get("target") or "the target"
    rows, of, active = [row["rows"] for row in woken], woken[0]["of"], woken[0]["active"]
    uniform = [of * (1 - (1 - active / of) ** count) for count in rows]
    lines = [
        Line("counted", rows, [row["touched"] for row in woken]),
        Line("uniform routing: E (1 - (1 - k/E)^n)", rows, uniform, modelled=True),
    ]
    note = (
        f"Counted in forwards of {target}: how many of a layer's {of} experts are read, where each token uses "
        f"{active}. Means over layers and forwards."
    )
    return Chart("tokens in a verify forward", "distinct experts per layer", note, lines)


def ladder(evidence: SavedResults) -> Chart | None:
    """16: chains of every drafter: what drafting costs, and what a round gains."""
    by_drafter: dict[str, list[RowJson]] = {}
    for draft, rows in evidence.by_draft.items():
        for row in rows:
            single = row["batch"] == 1 and row["context"] is None
            if single and not row["lossy"] and not row["length"] and row["gamma"] == 4 and row["prediction"]:
                name = draft if row["drafter"] == "draft" else row["drafter"]
                by_drafter.setdefault(name, []).append(row)
    if len(by_drafter) < 2:
        return None
    lines = []
    for name, rows in by_drafter.items():
        cost = median(row["prediction"]["gamma_c"] for row in rows)
        tau = median(row["prediction"]["tau"] for row in rows)
        ratio = median(row["ratio_to_plain"]["median"] for row in rows)
        lines.append(Line(name, [cost], [tau], text=[f"{ratio:.2f}x"]))
    note = (
        "Measured at gamma 4: medians over kinds of text and temperatures. Cheap drafters are on the left, accurate "
        "ones at the top; labels give the speedup over plain decoding."
    )
    return Chart(
        "cost of drafting four tokens, in rounds of plain decoding", "tokens per round", note, lines, joined=False
    )


def fine_tuning(evidence: SavedResults) -> Chart | None:
    """17: before and after `train-drafter --warm-start`: acceptance by position, or acceptance and greedy agreement."""
    if evidence.continued is None or evidence.before_and_after is None:
        return None
    by_position = len(evidence.before_and_after[0]["alpha"]) > 1
    lines = []
    for name, scores in zip(("before", "after"), evidence.before_and_after, strict=True):
        places: Sequence[float | str] = list(range(1, len(scores["alpha"]) + 1)) if by_position else MEASURES
        values = scores["alpha"] if by_position else [scores["alpha"][0], scores["greedy"][0]]
        lines.append(Line(f"{name}: acceptance {fmean(scores['alpha']):.3f}", places, values))
    tokens = evidence.before_and_after[1]["tokens"]
    note = f"{evidence.continued['name']}: measured on {tokens:,} held-out tokens. Acceptance is the sum of min(p, q)."
    x, y = ("position in the draft", "acceptance") if by_position else ("", "share of tokens")
    return Chart(x, y, note, lines, joined=by_position)


def jitter(evidence: SavedResults) -> Chart | None:
    """15: gaps of plain decoding and of the fastest setting, by kind and temperature."""
    pairs = evidence.fastest_beside_plain()
    if not pairs:
        return None
    kinds, names = [_kind(row) for row, _ in pairs], [row["name"] for row, _ in pairs]
    lines = [
        Line(f"{who}, {what}", kinds, [pair[side]["gap_ms"][end] for pair in pairs], text=() if side else names)
        for end, what in (("p99", "99th percentile"), ("p50", "median"))
        for side, who in ((1, "plain"), (0, "fastest"))
    ]
    note = (
        "Measured: time between two tokens as they reach a reader. A round's tokens arrive together, so the median gap "
        "is 0 where most rounds give several; the longest gaps last a whole round."
    )
    return Chart("", "milliseconds between tokens", note, lines, joined=False)


def cascade(evidence: SavedResults) -> Chart | None:
    """13: the cascade's best beside the draft model's best."""
    pairs = evidence.best_against(("cascade",), ("draft",))
    if not pairs:
        return None
    lines = _sides(pairs, ("three tiers: cascade", "two tiers: draft"), _kind)
    note = "Measured: the best setting of each, with 95% intervals over runs."
    return Chart("", OVER_PLAIN, note, lines, ratio=True, joined=False)


def _swept(evidence: SavedResults, field: str, x: str, note: str) -> Chart | None:
    """A line for each drafter and temperature, from the benchmarks that went through several values of `field`."""
    swept = evidence.swept(field)
    lines = []
    for name, temperature in dict.fromkeys((row["name"], row["temperature"]) for row in swept):
        rows = [row for row in swept if (row["name"], row["temperature"]) == (name, temperature)]
        values = sorted({row[field] for row in rows})
        at = [[row["ratio_to_plain"]["median"] for row in rows if row[field] == value] for value in values]
        lines.append(_spread(f"{name}, T = {temperature:g}", values, at))
    return Chart(x, OVER_PLAIN, note, lines, ratio=True, log_x=True) if lines else None


def _spread(name: str, x: Sequence[float], y: Sequence[Sequence[float]]) -> Line:
    return Line(name, x, [median(values) for values in y], [min(values) for values in y], [max(values) for values in y])


def _sides(pairs: Sequence[tuple[RowJson, RowJson]], names: Sequence[str], x: Callable[[RowJson], str]) -> list[Line]:
    """A line with intervals for either side of the pairs."""
    lines = []
    for name, rows in zip(names, zip(*pairs, strict=True), strict=True):
        middle, low, high = ([float(row["ratio_to_plain"][end]) for row in rows] for end in ENDS)
        lines.append(Line(name, [x(row) for row in rows], middle, low, high, text=[row["name"] for row in rows]))
    return lines


def _kind(row: RowJson) -> str:
    return f"{row['kind']}, T = {row['temperature']:g}"
