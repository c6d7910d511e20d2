"""How verdicts are computed from results. Each function judges one claim; None where its rows are missing.

Two drafters differ only where the intervals of their speedups over plain decoding do not overlap. A paired comparison
would find more differences, but it needs runs side by side, which rows of separate systems are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean, median

from draftscope.base.costs import alpha_of
from draftscope.claims.claim import ClaimVerdict, JudgedClaim
from draftscope.claims.saved_results import RowJson, SavedResults, fastest, place_of
from draftscope.drafters.options import nodes_in
from draftscope.drafters.registry import chain_of, known_heads


def exact(evidence: SavedResults) -> JudgedClaim | None:
    """1: every greedy text equals plain's."""
    rows = [row for row in evidence.every_row if row["equal_runs"] is not None and not row["lossy"]]
    if not rows:
        return None
    runs, equal = sum(row["runs"] for row in rows), sum(row["equal_runs"] for row in rows)
    result = f"{equal} of {runs} greedy texts by {len({row['name'] for row in rows})} settings equal plain's."
    if equal == runs:
        return JudgedClaim(ClaimVerdict.HOLDS, result, "For sampled text run: draftscope check --drafter NAME.")
    return JudgedClaim(
        ClaimVerdict.ONLY_IF,
        f"{result} The others differ.",
        "Run draftscope check: it tells rounding ties from errors.",
    )


def tau_formula(evidence: SavedResults) -> JudgedClaim | None:
    """2: the formula's own value for the quoted numbers, and its error on measured chains."""
    quoted = sum(0.8**k for k in range(6))
    chains = [
        row for row in evidence.rows if row["gamma"] and row["conditional_alpha"] and row["mean_acceptance_length"]
    ]
    errors = [_geometric_error(row) for row in chains]
    if not errors:
        return None
    result = (
        f"For alpha .8 and gamma 5 the formula gives {quoted:.2f}, not 4.5. On {len(errors)} measured chains it "
        f"differs from the mean acceptance length by {median(errors):.1%} in the median, {max(errors):.1%} at most."
    )
    return JudgedClaim(
        ClaimVerdict.FAILS, result, "4.5 needs alpha .883. Acceptance that varies by position changes the rest.",
        f"(1 - .8^6) / (1 - .8) = {quoted:.2f}.",
    )  # fmt: skip


def two_to_three(evidence: SavedResults) -> JudgedClaim | None:
    """3: the best ratio at batch 1 is at least 2."""
    return _at_least(evidence.exact_single, 2.0, "a larger target over its draft, or a draft that agrees more often")


def break_even(evidence: SavedResults) -> JudgedClaim | None:
    """4: break-even alpha of every measured chain of the draft model, from its measured costs."""
    rows = [row for row in evidence.exact_single if row["drafter"] == "draft" and row["gamma"] and row["prediction"]]
    if not rows:
        return None
    costs = [row["prediction"]["gamma_c"] + row["prediction"]["v"] + row["prediction"]["o"] for row in rows]
    alphas = [alpha_of(cost, row["gamma"]) for cost, row in zip(costs, rows, strict=True)]
    low, high = min(alphas), max(alphas)
    result = f"Break-even acceptance of {len(rows)} measured chains: {low:.2f} to {high:.2f}, by gamma and text."
    if high > 1:
        result += " Above 1 means that no acceptance would pay."
    inside = [0.5 <= alpha <= 0.6 for alpha in alphas]
    verdict = _verdict(sum(inside), len(inside))
    formula = "1 + a + ... + a^gamma = gamma c + v + o, solved for a with each chain's measured costs."
    change = "Other gammas, another draft's cost c or another verify cost v: the break-even is not a constant."
    return JudgedClaim(verdict, result, change, formula)


def hopeless(evidence: SavedResults) -> JudgedClaim | None:
    """5: settings with under 1.3 tokens per round are slower than plain."""
    rows = [
        row for row in evidence.exact_single if row["mean_acceptance_length"] and row["mean_acceptance_length"] < 1.3
    ]
    if not rows:
        return None
    worst = min(rows, key=lambda row: row["ratio_to_plain"]["median"])
    slower = [row for row in rows if row["ratio_to_plain"]["high"] < 1]
    result = (
        f"{len(slower)} of {len(rows)} settings with under 1.3 tokens per round are slower than plain; the worst: "
        f"{_format_row(worst)}."
    )
    verdict = _verdict(len(slower), len(rows))
    change = "A drafter that proposes nothing when it is unsure, such as n-grams, loses less."
    return JudgedClaim(verdict, result, change, _formula(worst))


def code_over_verse(evidence: SavedResults) -> JudgedClaim | None:
    """6: for each drafter, the ratio on code against that on verse."""
    rows = evidence.exact_single
    verse = {(row["name"], row["temperature"]): row for row in rows if row["kind"] == "verse"}
    code = [row for row in rows if row["kind"] == "code"]
    pairs = [(row, verse[key]) for row in code if (key := (row["name"], row["temperature"])) in verse]
    return _compared(pairs, "code", "verse", "other texts, and more prompts of each kind")


def dynamic(evidence: SavedResults) -> JudgedClaim | None:
    """7: a policy beats the best fixed setting of the kind."""
    rows = [row for row in (evidence.regret or {}).get("rows", ()) if row["policy"]]
    if not rows:
        return None
    better = [row for row in rows if row["ratio_to_best"]["low"] > 1]
    mean = sum(row["regret"] for row in rows) / len(rows)
    result = f"{len(better)} of {len(rows)} policies by kind beat the best fixed setting; mean regret {mean:.1%}."
    verdict = _verdict(len(better), len(rows))
    return JudgedClaim(verdict, result, "Longer texts, and texts that change their kind half way.")


def trees_over_chains(evidence: SavedResults) -> JudgedClaim | None:
    """8: sampled and top-k trees against chains of as many nodes of the same draft model."""
    rows = evidence.exact_single
    chains = {(row["gamma"], *place_of(row)): row for row in rows if row["drafter"] == "draft" and not row["length"]}
    trees = [row for row in rows if row["drafter"] in ("sampled-tree", "topk-tree") and row["shape"]]
    pairs = [(row, chains[key]) for row in trees if (key := (nodes_in(tuple(row["shape"])), *place_of(row))) in chains]
    return _compared(pairs, "trees", "chains of as many nodes", "a verify forward whose rows cost less, as on a GPU")


def heads_far_ahead(evidence: SavedResults) -> JudgedClaim | None:
    """9: the best head at batch 1 reaches 4x."""
    rows = [row for row in evidence.exact_single if chain_of(row["drafter"]) in known_heads()]
    return _at_least(
        rows, 4.0, "the published pair, its benchmark and its GPU: 6.47x is Vicuna-13B on HumanEval at T = 0"
    )


def lookahead_behind(evidence: SavedResults) -> JudgedClaim | None:
    """10: EAGLE's best against lookahead, by kind."""
    pairs = evidence.best_against(("eagle", "eagle3", "eagle-tree", "eagle3-tree"), ("lookahead",))
    return _compared(pairs, "EAGLE", "lookahead", "text that repeats itself")


def constant_state(evidence: SavedResults) -> JudgedClaim | None:
    """11: bytes of each draft's state at the longest context over those at the shortest."""
    growth: dict[str, tuple[int, int, float]] = {}
    for draft, rows in evidence.by_draft.items():
        sizes = {row["context"]: row["draft_bytes"] for row in rows if row["context"] and row["draft_bytes"]}
        if len(sizes) > 1:
            growth[draft] = min(sizes), max(sizes), sizes[max(sizes)] / sizes[min(sizes)]
    mamba = {draft: grown for draft, grown in growth.items() if "mamba" in draft}
    if not mamba:
        return None
    result = "; ".join(
        f"{draft} keeps {more:.2f} times as many bytes at {last} tokens as at {first}"
        for draft, (first, last, more) in growth.items()
    )
    constant = all(more == 1 for _, _, more in mamba.values())
    verdict = ClaimVerdict.HOLDS if constant else ClaimVerdict.FAILS
    return JudgedClaim(verdict, f"{result}.", "A hybrid draft, whose attention layers keep a cache.")


def jitter(evidence: SavedResults) -> JudgedClaim | None:
    """15: the fastest setting of every kind and temperature has longer pauses than plain, and is faster."""
    pairs = evidence.fastest_beside_plain()
    if not pairs:
        return None
    pauses = [row["gap_ms"]["p99"] / other["gap_ms"]["p99"] for row, other in pairs]
    spread = [row["gap_ms"]["sd"] / other["gap_ms"]["sd"] for row, other in pairs if other["gap_ms"]["sd"]]
    both = [pause > 1 and row["ratio_to_plain"]["low"] > 1 for pause, (row, _) in zip(pauses, pairs, strict=True)]
    result = (
        f"The fastest setting of each of {len(pairs)} kinds and temperatures: the 99th percentile of its gaps is "
        f"{median(pauses):.2f} times plain's in the median"
        + (f", their standard deviation {median(spread):.2f} times" if spread else "")
        + f". In {sum(both)} it has longer pauses and is faster."
    )
    verdict = _verdict(sum(both), len(both))
    formula = "Rounds of one length and tau tokens each: the gaps' variance over their mean squared is tau - 1."
    change = "How it feels was not asked of readers; paced output, at the mean speed, hides the pauses."
    return JudgedClaim(verdict, result, change, formula)


def fine_tuned(evidence: SavedResults) -> JudgedClaim | None:
    """17: the drafter's acceptance on held-out answers before and after `train-drafter --warm-start`."""
    if evidence.before_and_after is None:
        return None
    before, after = (fmean(scores["alpha"]) for scores in evidence.before_and_after)
    gain, tokens = after / before - 1, evidence.before_and_after[1]["tokens"]
    result = (
        f"Acceptance (sum of min(p, q), mean over positions) on {tokens:,} held-out tokens went from {before:.3f} to "
        f"{after:.3f}: {gain:+.1%}."
    )
    verdict = ClaimVerdict.HOLDS if gain >= 0.2 else ClaimVerdict.FAILS
    return JudgedClaim(verdict, result, "A drafter that has not seen such text, and more of it.")


def experts_gain_less(evidence: SavedResults) -> JudgedClaim | None:
    """21: the same setting on the dense target and on the mixture of experts, by kind and temperature."""
    pairs = evidence.dense_beside_experts()
    judged = _compared(pairs, "the dense target", "the mixture of experts", "more experts, of which fewer are active")
    formula = "Uniform routing wakes E (1 - (1 - k/E)^n) experts for n tokens; a run's trace holds those that it woke."
    return replace(judged, formula=formula) if judged is not None else None


def latency_over_quality(evidence: SavedResults) -> JudgedClaim | None:
    """16: pairs of drafts of which one is cheaper and the other agrees more often, by kind and temperature."""
    chains: dict[object, list[RowJson]] = {}
    for rows in evidence.by_draft.values():
        for row in rows:
            known = row["drafter"] == "draft" and row["gamma"] and row["prediction"] and row["batch"] == 1
            if known and row["context"] is None and not row["lossy"] and not row["length"]:
                chains.setdefault((row["gamma"], *place_of(row)), []).append(row)
    pairs = [
        (cheap, good)
        for chain in chains.values()
        for cheap in chain
        for good in chain
        if cheap["prediction"]["gamma_c"] < good["prediction"]["gamma_c"]
        and cheap["mean_acceptance_length"] < good["mean_acceptance_length"]
    ]
    return _compared(pairs, "cheaper drafts", "drafts that agree more", "drafts of other sizes, and a dearer target")


def graphs(evidence: SavedResults) -> JudgedClaim | None:
    """12: the same greedy runs with graphs and without, on the card that the file names."""
    sections = evidence.gpu["sections"] if evidence.gpu is not None else {}
    rows = [row for row in sections.get("graphs", ()) if row.get("graphs / eager")]
    if evidence.gpu is None or not rows:
        return None
    ratios, wrong = [row["graphs / eager"] for row in rows], sum(bool(row["wrong"]) for row in rows)
    machine = evidence.gpu["machine"]
    result = (
        f"On one {machine['device']} ({machine['date']}) {len(rows)} drafters ran {min(ratios):.1f} to "
        f"{max(ratios):.1f} times as fast with graphs, and {len(rows) - wrong} of them wrote equal tokens."
    )
    verdict = ClaimVerdict.FAILS if wrong else _verdict(sum(ratio > 1 for ratio in ratios), len(rows))
    return JudgedClaim(verdict, result, "A larger model, whose kernels take longer than their launches.")


def cascade_over_two(evidence: SavedResults) -> JudgedClaim | None:
    """13: the cascade's best against the draft model's best chain."""
    return _compared(evidence.best_against(("cascade",), ("draft",)), "the cascade", "two tiers", "three real sizes")


def lossy_faster(evidence: SavedResults) -> JudgedClaim | None:
    """14: lossy rules against exact ones of the same drafter and gamma."""
    rows = evidence.rows
    base = {
        (row["drafter"], row["gamma"], *place_of(row)): row for row in rows if not row["lossy"] and not row["length"]
    }
    lossy = [row for row in rows if row["lossy"] and row["temperature"] > 0]
    keys = ((row, (row["drafter"], row["gamma"], *place_of(row))) for row in lossy)
    pairs = [(row, base[key]) for row, key in keys if key in base]
    return _compared(pairs, "lossy rules", "exact rules", "a looser rule; the total variation is in the same table")


def by_batch(evidence: SavedResults) -> JudgedClaim | None:
    """18: the best ratio by batch: 2 to 3 up to 10, below 1 from 32 on. Only of benchmarks that went through several
    batches: other ones have other kinds of text and other drafters at batch 1."""
    rows = [row for row in evidence.swept("batch") if not row["lossy"]]
    batches = sorted({row["batch"] for row in rows})
    if len(batches) < 2:
        return None
    best = {batch: fastest([row for row in rows if row["batch"] == batch]) for batch in batches}
    result = "The best " + "; ".join(f"at batch {batch}: {_format_row(row)}" for batch, row in best.items()) + "."
    small = all(best[batch]["ratio_to_plain"]["median"] >= 2 for batch in batches if batch <= 10)
    large = [batch for batch in batches if batch >= 32]
    off = bool(large) and all(best[batch]["ratio_to_plain"]["median"] < 1 for batch in large)
    verdict = _verdict(small + off, 2)
    return JudgedClaim(
        verdict, result, "A verify forward whose rows cost less: on a GPU the speedup falls below 1 at larger batches."
    )


def long_context(evidence: SavedResults) -> JudgedClaim | None:
    """19: the best ratio at the longest context against that at the shortest."""
    contexts = sorted({row["context"] for row in evidence.rows if row["context"]})
    if len(contexts) < 2:
        return None
    ends = [[row for row in evidence.rows if row["context"] == context] for context in (contexts[-1], contexts[0])]
    pairs = [(fastest(long), fastest(short)) for long, short in [ends]]
    return _compared(pairs, f"{contexts[-1]} tokens", f"{contexts[0]} tokens", "a cache that outweighs the weights")


def short_answers(evidence: SavedResults) -> JudgedClaim | None:
    """20: the answer length from which the advised setting pays."""
    shortest = (evidence.advice or {}).get("limits", {}).get("shortest")
    if shortest is None:
        return None
    result = f"The advised setting pays from {shortest} tokens on (modelled from measured prefill and rounds)."
    verdict = ClaimVerdict.HOLDS if shortest >= 20 else ClaimVerdict.FAILS
    formula = "N* = extra prefill / (T1 (1 - 1/S)), T1 a round of plain decoding."
    return JudgedClaim(verdict, result, "A draft with a longer prefill, or a longer prompt.", formula)


def ssd_doubles(evidence: SavedResults) -> JudgedClaim | None:
    """22: SSD's best against the draft model's best chain."""
    pairs = evidence.best_against(("ssd",), ("draft",))
    return _compared(pairs, "SSD", "the draft model", "a second device that is idle while the target verifies")


def cloud_bill(evidence: SavedResults) -> JudgedClaim | None:
    """24: the best ratio saves 1 - 1 / S of the machine's time."""
    rows = evidence.rows
    if not rows:
        return None
    best = fastest(rows)
    saved = 1 - 1 / best["ratio_to_plain"]["median"]
    result = (
        f"The best setting, {_format_row(best)}, saves {max(0.0, saved):.0%} of the machine's time for the same tokens."
    )
    verdict = ClaimVerdict.HOLDS if saved >= 0.7 else ClaimVerdict.FAILS
    change = "70% needs 3.3x at the batch sizes of a full server, where ratios are smallest."
    return JudgedClaim(verdict, result, change, "1 - 1/S saves 70% from S = 3.33 on.")


def _verdict(holding: int, of: int) -> ClaimVerdict:
    """Holds where it does in all cases, only if in some."""
    if holding == of:
        return ClaimVerdict.HOLDS
    return ClaimVerdict.ONLY_IF if holding else ClaimVerdict.FAILS


def _geometric_error(row: RowJson) -> float:
    alphas = [alpha for alpha in row["conditional_alpha"] if alpha is not None]
    alpha = float(sum(alphas)) / len(alphas)
    formula = float(sum(alpha**k for k in range(row["gamma"] + 1)))
    return abs(formula / float(row["mean_acceptance_length"]) - 1)


def _format_row(row: RowJson) -> str:
    ratio = row["ratio_to_plain"]
    numbers = f"{ratio['median']:.2f}x [{ratio['low']:.2f}, {ratio['high']:.2f}]"
    return f"{row['name']} on {row['kind']} at T = {row['temperature']:g}, {numbers}, {row['runs']} runs"


def _formula(row: RowJson) -> str:
    """What the formula predicts for a row, from its measured costs and acceptance."""
    terms = row["prediction"]
    if not terms or not row.get("predicted_ratio"):
        return ""
    costs = f"{terms['gamma_c']:.2f} + {terms['v']:.2f} + {terms['o']:.2f}"
    steady = terms["tau"] / (terms["gamma_c"] + terms["v"] + terms["o"])
    whole = f" ({row['predicted_ratio']:.2f} with set-up and prefill)" if terms.get("before") else ""
    return f"tau / (gamma c + v + o) = {terms['tau']:.2f} / ({costs}) = {steady:.2f}{whole}, for {row['name']}."


def _at_least(rows: Sequence[RowJson], least: float, change: str) -> JudgedClaim | None:
    """Holds if every kind has a row above `least`, only if some kinds have."""
    if not rows:
        return None
    kinds: dict[str, list[RowJson]] = {}
    for row in rows:
        kinds.setdefault(row["kind"], []).append(row)
    over = [kind for kind, kind_rows in kinds.items() if fastest(kind_rows)["ratio_to_plain"]["low"] >= least]
    best = fastest(rows)
    result = f"The best: {_format_row(best)}. {len(over)} of {len(kinds)} kinds reach {least:g}x{_listed(over)}."
    verdict = _verdict(len(over), len(kinds))
    return JudgedClaim(verdict, result, f"It would take {change}.", _formula(best))


def _listed(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _compared(pairs: Sequence[tuple[RowJson, RowJson]], name: str, other: str, change: str) -> JudgedClaim | None:
    """Holds if every pair's intervals lie apart in favour of the first, only if some do."""
    if not pairs:
        return None
    better, worse = _apart(pairs, lambda a, b: a["low"] > b["high"]), _apart(pairs, lambda a, b: a["high"] < b["low"])
    middle = median(a["ratio_to_plain"]["median"] / b["ratio_to_plain"]["median"] for a, b in pairs)
    many = "1 comparison" if len(pairs) == 1 else f"{len(pairs)} comparisons"
    undecided = len(pairs) - better - worse
    rest = f"; in {undecided} the intervals overlap" if undecided else ""
    result = (
        f"{name[0].upper()}{name[1:]} against {other}, {many}: the speedup is larger in {better} and smaller in {worse}"
        f"{rest}. The median ratio is {middle:.2f}."
    )
    if not better and not worse:
        return JudgedClaim(ClaimVerdict.UNTESTED, result, "More prompts and repeats, until the intervals lie apart.")
    return JudgedClaim(_verdict(better, len(pairs)), result, f"It would change with {change}.")


def _apart(pairs: Sequence[tuple[RowJson, RowJson]], test: Callable[[RowJson, RowJson], bool]) -> int:
    return sum(test(a["ratio_to_plain"], b["ratio_to_plain"]) for a, b in pairs)
