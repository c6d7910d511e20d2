"""The charts of the experiments, from the files that commands wrote. Each returns None where its rows are missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from draftscope.advise.what_if import answer_ratio
from draftscope.claims.chart import Chart, Line
from draftscope.claims.evidence import Evidence, RowJson

LENGTHS = (4, 8, 16, 32, 64, 128, 256, 512)
SPREAD = "Points are medians over kinds of text, bars reach from the lowest kind to the highest."
ENDS = ("median", "low", "high")
OVER_PLAIN = "tokens/s over plain decoding's"


def by_batch(evidence: Evidence) -> Chart | None:
    """18: each drafter's ratio by batch."""
    note = f"Measured. {SPREAD} Plain decoding of the same batch is 1."
    return _swept(evidence, "batch", "sequences decoded together", note)


def by_context(evidence: Evidence) -> Chart | None:
    """19: each drafter's ratio by context."""
    note = f"Measured, prefill included. {SPREAD} Plain decoding behind the same prompt is 1."
    return _swept(evidence, "context", "tokens of the prompt", note)


def by_memory(evidence: Evidence) -> Chart | None:
    """11: what each model keeps of a text: a cache that grows, or a state that does not."""
    sizes: dict[str, dict[int, int]] = {}
    for kept in (own for bench in evidence.benches for own in bench.get("kept", ())):
        sizes.setdefault(f"{kept['role']} {kept['model']}", {})[kept["tokens"]] = kept["bytes"]
    lines = [Line(name, sorted(own), [own[at] for at in sorted(own)]) for name, own in sizes.items() if len(own) > 1]
    note = "Computed from the models' shapes, for one text: keys and values, or a recurrent model's state."
    return Chart("tokens of the text", "bytes", note, lines, log_x=True, log_y=True) if lines else None


def by_length(evidence: Evidence) -> Chart | None:
    """20: the advised drafter's ratio by answer length, and what was run."""
    surface = (evidence.advice or {}).get("surface")
    if evidence.advice is None or not surface or not surface.get("by_context"):
        return None
    own, chosen = surface["by_context"], surface["drafter"]
    place = min(range(len(own["contexts"])), key=lambda index: abs(own["contexts"][index] - own["prompt"]))
    tau = surface["tau"][surface["gammas"].index(own["gamma"])]
    middle, low, high = ([answer_ratio(surface, tau[end], place, n) for n in LENGTHS] for end in ENDS)
    lines = [Line(f"{chosen}, gamma {own['gamma']}, modelled", LENGTHS, middle, low, high, modelled=True)]
    for ran in evidence.advice["measured"]:
        middle, low, high = ([ran["ratio"][end]] for end in ENDS)
        lines.append(Line(f"{ran['name']}, measured", [ran["tokens"]], middle, low, high))
    note = (
        f"Modelled from measured costs, prefill and acceptance, for a prompt of {own['contexts'][place]} tokens, one "
        "reader; bars are 95% intervals. Single points were run against plain decoding."
    )
    return Chart("tokens of an answer", "speed over plain decoding's", note, lines, ratio=True, log_x=True)


def experts_speed(evidence: Evidence) -> Chart | None:
    """21: the same settings on the dense target and on the mixture of experts."""
    sparse = [row for row in evidence.of_experts if row["batch"] == 1 and not row["lossy"]]
    dense = {_place(row): row for row in evidence.rows if row["batch"] == 1 and not row["context"]}
    pairs = [(dense[_place(row)], row) for row in sparse if _place(row) in dense]
    if not pairs:
        return None
    note = "Measured: medians and 95% intervals over runs. Each is over its own target's plain decoding."
    sides = [
        _intervals(name, [pair[side] for pair in pairs], lambda row: f"{row['drafter']}, {_kind(row)}")
        for side, name in enumerate(("dense", "experts"))
    ]
    return Chart("", OVER_PLAIN, note, sides, ratio=True, joined=False)


def experts_woken(evidence: Evidence) -> Chart | None:
    """21: distinct experts that a verify forward reads, beside uniform routing."""
    found = next((bench["woken"] for bench in evidence.benches if bench.get("woken")), None)
    if found is None:
        return None
    rows, of, active = [own["rows"] for own in found], found[0]["of"], found[0]["active"]
    uniform = [of * (1 - (1 - active / of) ** count) for count in rows]
    lines = [
        Line("counted", rows, [own["touched"] for own in found]),
        Line("uniform routing: E (1 - (1 - k/E)^n)", rows, uniform, modelled=True),
    ]
    note = f"Counted in the target's forwards: distinct experts of a layer, of {of} with {active} a token; means."
    return Chart("tokens in a verify forward", "experts", note, lines)


def ladder(evidence: Evidence) -> Chart | None:
    """16: chains of every drafter: what drafting costs, and what a round gains."""
    found: dict[str, list[RowJson]] = {}
    for draft, rows in evidence.by_draft.items():
        for row in rows:
            if _alone(row) and row["gamma"] == 4 and row["prediction"]:
                name = draft if row["drafter"] == "draft" else row["drafter"]
                found.setdefault(name, []).append(row)
    if len(found) < 2:
        return None
    lines = []
    for name, rows in found.items():
        cost = median(row["prediction"]["gamma_c"] for row in rows)
        tau = median(row["mean_acceptance_length"] for row in rows)
        ratio = median(row["ratio_to_plain"]["median"] for row in rows)
        lines.append(Line(name, [cost], [tau], text=[f"{ratio:.2f}x"]))
    note = (
        "Measured, gamma 4: medians over kinds and temperatures. Cheap and often right is up and left; beside each "
        "point its speed over plain decoding's."
    )
    return Chart("drafting four tokens, in rounds of plain decoding", "tokens a round", note, lines, joined=False)


def fine_tuning(evidence: Evidence) -> Chart | None:
    """17: acceptance by position before and after `draftscope adapt`."""
    if evidence.adapted is None:
        return None
    lines = []
    for name in ("before", "after"):
        alpha = evidence.adapted[name]["alpha"]
        lines.append(Line(name, list(range(1, len(alpha) + 1)), alpha))
    note = f"{evidence.adapted['name']}: sum of min(p, q) on {evidence.adapted['after']['tokens']:,} held-out tokens."
    return Chart("position in the draft", "acceptance", note, lines)


def jitter(evidence: Evidence) -> Chart | None:
    """15: gaps of plain decoding and of the fastest setting, by kind and temperature."""
    plain = {_kind(row): row for row in evidence.plain if row.get("gap_ms") and _alone(row)}
    fastest: dict[str, RowJson] = {}
    for row in evidence.rows:
        if row.get("gap_ms") and _alone(row) and _kind(row) in plain:
            best = fastest.get(_kind(row))
            if best is None or row["ratio_to_plain"]["median"] > best["ratio_to_plain"]["median"]:
                fastest[_kind(row)] = row
    if not fastest:
        return None
    kinds = list(fastest)
    lines = [
        Line("plain, 99th percentile", kinds, [plain[kind]["gap_ms"]["p99"] for kind in kinds]),
        Line(
            "fastest, 99th percentile", kinds, [fastest[kind]["gap_ms"]["p99"] for kind in kinds],
            text=[fastest[kind]["name"] for kind in kinds],
        ),
        Line("plain, median", kinds, [plain[kind]["gap_ms"]["p50"] for kind in kinds]),
        Line("fastest, median", kinds, [fastest[kind]["gap_ms"]["p50"] for kind in kinds]),
    ]  # fmt: skip
    note = (
        "Measured: time between two tokens as a reader gets them. A round's tokens come together: the median gap is 0 "
        "where most of them do, and the longest gaps are whole rounds."
    )
    return Chart("", "milliseconds between tokens", note, lines, joined=False)


def cascade(evidence: Evidence) -> Chart | None:
    """13: the cascade's best beside the draft model's best."""
    sides = []
    for name, drafter in (("three tiers: cascade", "cascade"), ("two tiers: draft", "draft")):
        best: dict[str, RowJson] = {}
        for row in evidence.rows:
            if row["drafter"] == drafter and _alone(row):
                known = best.get(_kind(row))
                if known is None or row["ratio_to_plain"]["median"] > known["ratio_to_plain"]["median"]:
                    best[_kind(row)] = row
        sides.append((name, best))
    kinds = [kind for kind in sides[0][1] if kind in sides[1][1]]
    if not kinds:
        return None
    lines = [_intervals(name, [best[kind] for kind in kinds], _kind) for name, best in sides]
    note = "Measured: each side's best setting, with 95% intervals over runs."
    return Chart("", OVER_PLAIN, note, lines, ratio=True, joined=False)


def _swept(evidence: Evidence, field: str, x: str, note: str) -> Chart | None:
    """A line for each drafter and temperature, from the benchmarks that went through several values of `field`."""
    own = evidence.swept(field)
    lines = []
    for name, temperature in dict.fromkeys((row["name"], row["temperature"]) for row in own):
        rows = [row for row in own if (row["name"], row["temperature"]) == (name, temperature)]
        values = sorted({row[field] for row in rows})
        at = [[row["ratio_to_plain"]["median"] for row in rows if row[field] == value] for value in values]
        lines.append(_spread(f"{name}, T = {temperature:g}", values, at))
    return Chart(x, OVER_PLAIN, note, lines, ratio=True, log_x=True) if lines else None


def _spread(name: str, x: Sequence[float], y: Sequence[Sequence[float]]) -> Line:
    return Line(name, x, [median(each) for each in y], [min(each) for each in y], [max(each) for each in y])


def _intervals(name: str, rows: Sequence[RowJson], x: Callable[[RowJson], str]) -> Line:
    middle, low, high = ([float(row["ratio_to_plain"][end]) for row in rows] for end in ENDS)
    return Line(name, [x(row) for row in rows], middle, low, high, text=[row["name"] for row in rows])


def _alone(row: RowJson) -> bool:
    """An exact row of one sequence on prompts as they are."""
    return row["batch"] == 1 and row["context"] is None and not row["lossy"] and not row["length"]


def _kind(row: RowJson) -> str:
    return f"{row['kind']}, T = {row['temperature']:g}"


def _place(row: RowJson) -> tuple[object, ...]:
    return row["name"], row["kind"], row["temperature"]
