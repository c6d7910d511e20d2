"""Drafters compared over prompts and seeds: whole unrecorded runs in turn, and paired intervals of their ratios."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from draftscope.base.progress import Watcher, unseen
from draftscope.base.steps import last
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.lane import Lane
from draftscope.decode.prompt import AnyPrompt
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.statistics import LEVEL, RESAMPLES

if TYPE_CHECKING:
    import pandas as pd

Numbers = NDArray[np.float64]
Statistic = Callable[..., Numbers]  # of arrays [..., prompts], along an axis


@dataclass(frozen=True)
class DrafterRun:
    """One drafter on one prompt with one seed. `seconds` are of decoding on the run's clock, without the prefill."""

    drafter: str
    prompt: int
    seed: int
    tokens: tuple[int, ...]
    rounds: int
    seconds: float


def drafter_runs(
    engine: DecodingEngine,
    prompts: Sequence[AnyPrompt],
    lanes: Mapping[str, Settings],
    seeds: Sequence[int],
    watch: Watcher = unseen,
) -> Iterator[DrafterRun]:
    """Every lane on every prompt with every seed, the lanes in turn, after a short run of each that does not count."""
    for settings in lanes.values():
        short = settings.model_copy(update={"max_new_tokens": 8})
        for _ in last(engine.opening(prompts[0], Lane.of(engine, short), record=False), watch).steps():
            pass
    for number, prompt in enumerate(prompts):
        for seed in seeds:
            for name, settings in lanes.items():
                run = engine.start(prompt, settings.model_copy(update={"seed": seed}), record=False)
                rounds = sum(1 for _ in run.steps())
                yield DrafterRun(name, number, seed, tuple(run.token_ids), rounds, run.clock_ms / 1e3)


def paired_table(runs: Sequence[DrafterRun], baseline: str) -> pd.DataFrame:
    """A row for each drafter, with `LEVEL` bootstrap intervals over prompts.

    `ratio` is the geometric mean over prompts of tokens/s over the baseline's on the same prompt and seed; `tau` all
    tokens over all rounds; `tau_difference` tau less the baseline's. Seeds of one prompt are no independent samples, so
    prompts are drawn, or seeds if there is one prompt; one prompt with one seed has no interval (NaN). `equal_texts` is
    the share of runs with the baseline's tokens, which above temperature 0 need not be equal.
    """
    import pandas as pd

    by_lane: dict[str, list[DrafterRun]] = {}
    for run in runs:
        by_lane.setdefault(run.drafter, []).append(run)
    return pd.DataFrame([_row(name, runs, by_lane[baseline]) for name, runs in by_lane.items()])


def _row(name: str, runs: Sequence[DrafterRun], base: Sequence[DrafterRun]) -> dict[str, Any]:
    groups = [run.prompt if len({run.prompt for run in runs}) > 1 else run.seed for run in runs]
    logs = [np.log(_speed(run) / _speed(other)) for run, other in zip(runs, base, strict=True)]
    counted = [_summed(groups, [len(run.tokens) for run in lane]) for lane in (runs, base)]
    rounds = [_summed(groups, [run.rounds for run in lane]) for lane in (runs, base)]
    sums = counted[0], rounds[0], counted[1], rounds[1]
    means = _summed(groups, logs) / _summed(groups, [1] * len(logs))
    return {
        "drafter": name,
        "runs": len(runs),
        "tokens_per_s": median(map(_speed, runs)),
        **_interval("ratio", (means,), lambda x, axis=-1: np.exp(x.mean(axis=axis))),
        **_interval("tau", sums[:2], lambda t, r, axis=-1: t.sum(axis=axis) / r.sum(axis=axis)),
        **_interval("tau_difference", sums, _difference),
        "equal_texts": sum(a.tokens == b.tokens for a, b in zip(runs, base, strict=True)) / len(runs),
    }


def _difference(tokens: Numbers, rounds: Numbers, others: Numbers, theirs: Numbers, axis: int = -1) -> Numbers:
    ours: Numbers = tokens.sum(axis=axis) / rounds.sum(axis=axis)
    base: Numbers = others.sum(axis=axis) / theirs.sum(axis=axis)
    return ours - base


def _speed(run: DrafterRun) -> float:
    return len(run.tokens) / run.seconds


def _summed(groups: Sequence[int], values: Sequence[float]) -> Numbers:
    """One sum for each group, in the groups' order."""
    order = list(dict.fromkeys(groups))
    return np.array(
        [sum(value for group, value in zip(groups, values, strict=True) if group == current) for current in order]
    )


def _interval(name: str, samples: Sequence[Numbers], statistic: Statistic) -> dict[str, float]:
    """The statistic and its interval, whose ends are NaN where there is one sample."""
    from scipy import stats  # not at the top: it takes long to import

    value = float(statistic(*samples))
    low = high = float("nan")
    if len(samples[0]) > 1:
        result = stats.bootstrap(
            samples, statistic, paired=True, n_resamples=RESAMPLES, confidence_level=LEVEL, method="percentile",
            rng=np.random.default_rng(0),
        )  # fmt: skip
        low, high = map(float, result.confidence_interval)
    return {name: value, f"{name}_low": low, f"{name}_high": high}
