"""Whatever measures in the engine process does so in steps, between which other visitors decode."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from draftscope.base.progress import Progress
from draftscope.base.steps import last
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.measure.bench.runner import Bench
from draftscope.measure.bench.systems import PLAIN, Case, DrafterSystem, Label
from draftscope.measure.check import checked
from draftscope.trace.events import RunStart
from draftscope_app.engine.run_job import RunJob
from draftscope_app.engine.work import steps_of
from tests.support.measuring import CHOOSES, Work, assert_one_thing_a_step


def run(engine: DecodingEngine, drafter: str) -> Iterator[Any]:
    settings = Settings.of(drafter=drafter, temperature=1.0, max_new_tokens=4)
    return steps_of(engine, RunJob(id="r", prompt="abc", lanes={"speculative": settings}, solo_repeats=1))


def bandit(engine: DecodingEngine, drafter: str) -> Iterator[Any]:
    arms = ("draft:2", "ngram", drafter)
    settings = Settings.of(drafter="bandit", arms=arms, temperature=1.0, max_new_tokens=4)
    return steps_of(engine, RunJob(id="r", prompt="abc", lanes={"speculative": settings}))


def length(engine: DecodingEngine, drafter: str) -> Iterator[Any]:
    """A length that is chosen by cost."""
    settings = Settings.of(drafter="draft", draft_length="cost", max_new_tokens=4)
    return steps_of(engine, RunJob(id="r", prompt="abc", lanes={"speculative": settings, "other": settings}))


def later(engine: DecodingEngine, drafter: str) -> Iterator[Any]:
    """What a run has presumed is measured after it."""
    list(bandit(engine, drafter))
    return engine.measuring_presumed()


def benched(engine: DecodingEngine, drafter: str) -> Iterator[Any]:
    systems = [DrafterSystem(engine, label) for label in (PLAIN, Label(PLAIN.system, drafter))]
    case = Case("prompts", 0, (tuple(engine.encode("abc")),), 0.0)
    return Bench(BenchPlan(tokens=4, repeats=1), systems, [case], bar=False).groups()


@pytest.mark.usefixtures("little_calibrated")
@pytest.mark.parametrize("drafter", CHOOSES)
@pytest.mark.parametrize("work", [later, benched])
def test_no_step_measures_more_than_one_thing(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, work: Work, drafter: str
) -> None:
    assert_one_thing_a_step(pair, monkeypatch, work, drafter)


@pytest.mark.usefixtures("little_calibrated")
@pytest.mark.parametrize(
    ("work", "drafter"), [*((run, name) for name in CHOOSES), (bandit, "hybrid"), (length, "draft")]
)
def test_a_run_decodes_at_once_and_says_by_which_costs(pair: DecodingEngine, work: Work, drafter: str) -> None:
    """Its first step was more than a minute of measuring."""
    engine = DecodingEngine(pair.target, pair.draft, pair.tokenizer, pair.heads)
    for words in ("not measured here yet", "measured here on 2"):
        said = list(work(engine, drafter))
        start = next(event for event in said if isinstance(event, RunStart))
        assert start.costs is not None and start.costs.startswith(words)
        assert not any(isinstance(event, Progress) for event in said)
        last(engine.measuring_presumed())
    assert list(engine.measuring_presumed()) == []


def test_a_drafter_that_chooses_nothing_by_cost_says_nothing_of_costs(pair: DecodingEngine) -> None:
    start = next(event for event in run(pair, "ngram") if isinstance(event, RunStart))
    assert start.costs is None


def test_a_check_lets_others_decode_after_every_round(pair: DecodingEngine) -> None:
    """A text was a step, and so were all of plain's."""
    pulse, most = pair.target.pulse, 0
    before = pulse.forwards
    for _ in islice(checked(pair, Settings.of(drafter="ngram"), 500), 150):
        most, before = max(most, pulse.forwards - before), pulse.forwards
    assert most < 30
