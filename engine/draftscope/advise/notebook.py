"""Advice as a report, which a notebook shows."""

from __future__ import annotations

from typing import Any

import pandas as pd
from tqdm.auto import tqdm

from draftscope.advise.advise import advise
from draftscope.advise.question import Objective, Question
from draftscope.api import Engine, Report, SomeDrafters, Texts, drafter_names, texts_by_kind
from draftscope.base.common_settings import refuse_unknown_arguments
from draftscope.base.errors import DraftscopeError


@refuse_unknown_arguments
def advice(
    engine: Engine,
    prompts: Texts | None = None,
    drafters: SomeDrafters = (),
    *,
    objective: str = "latency",
    temperature: float = 0.0,
    length: int = 128,
    concurrency: int = 1,
    context: int | None = None,
    price_per_hour: float | None = None,
    seconds: float = 120.0,
    progress: bool = True,
) -> Report:
    """Should these models speculate on these prompts, with which drafter, and what does it save?

    Measures for `seconds`, after calibrating. `objective` is latency, throughput, cost or tail; `length` the
    expected tokens of an answer, `concurrency` the answers written together. The table has every candidate, the
    best first; `value` is the `AdviceReport`. Prompts are the shipped ones if none are given.
    """
    if objective not in list(Objective):
        raise DraftscopeError(f"objective = '{objective}': choose {', '.join(Objective)}.")
    question = Question(Objective(objective), temperature, length, concurrency, context, price_per_hour, seconds)
    names = drafter_names(drafters)
    texts, notes = texts_by_kind(prompts, engine)
    with tqdm(total=0, desc="advise", leave=False, disable=not progress, bar_format="{desc}") as bar:
        report = advise(engine, question, texts, names, notes, lambda now: bar.set_description(now.words))
    measured = {run.candidate: run.ratio for run in report.measured}
    rows = [
        {
            "candidate": prediction.candidate.name,
            "tau": prediction.tau.median,
            "round_cost": prediction.cost,
            "predicted": prediction.ratio.median,
            **_columns("measured", measured.get(prediction.candidate)),
        }
        for prediction in report.predicted
    ]
    return Report("\n".join([*report.sentences, *report.notes]), pd.DataFrame(rows), report)


def _columns(name: str, interval: Any) -> dict[str, float | None]:
    ends = [None] * 3 if interval is None else [interval.median, interval.low, interval.high]
    return dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))
