"""Work in steps: results, stopping, and a measurement that several wait for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from draftscope.base import costs
from draftscope.base.errors import DraftscopeError
from draftscope.base.progress import Progress
from draftscope.base.steps import Cancelled, Steps, Together, last, mapped, said, stoppable
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.lane import Lane
from draftscope.drafters.settings import Settings
from draftscope_app.engine.run_job import RunJob
from draftscope_app.engine.work import steps_of


def counted(most: int, taken: list[int]) -> Steps[int, str]:
    for number in range(most):
        taken.append(number)
        yield number
    return "found"


def test_the_result_and_the_steps_are_handed_on() -> None:
    seen: list[int] = []
    assert last(mapped(counted(3, []), lambda number: 10 * number), seen.append) == "found" and seen == [0, 10, 20]
    assert list(said([None, 1, None, 0])) == [1, 0]


def test_a_step_is_the_last_once_it_is_cancelled() -> None:
    taken: list[int] = []
    assert list(stoppable(counted(9, taken), lambda: len(taken) > 2)) == taken == [0, 1, 2]
    assert not isinstance(Cancelled(), Exception)  # work that outlives errors does not outlive this


def quiet(most: int, taken: list[int]) -> Steps[None, str]:
    return mapped(counted(most, taken), lambda _: None)


def test_a_measurement_that_two_wait_for_is_made_once() -> None:
    taken: list[int] = []
    together = Together(lambda: quiet(4, taken))
    one, two = together.steps(), together.steps()
    next(one), next(two), next(one)
    assert taken == [0, 1, 2]
    one.close()  # who waited leaves, and the other goes on from there
    assert last(two) == "found" == last(together.steps())
    assert taken == [0, 1, 2, 3]


def test_a_measurement_that_nobody_waits_for_is_given_up_and_one_that_fails_can_be_made_again() -> None:
    taken: list[int] = []
    together = Together(lambda: quiet(4, taken))
    one = together.steps()
    next(one)
    one.close()
    assert together._running is None
    assert last(together.steps()) == "found" and taken == [0, 0, 1, 2, 3]

    def failing() -> Iterator[None]:
        yield None
        raise KeyError("no memory")

    broken: Together[None, None] = Together(failing)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(KeyError):
            last(broken.steps())


@pytest.mark.usefixtures("little_calibrated")
def test_what_sequoia_chooses_by_is_measured_in_steps(pair: DecodingEngine) -> None:
    """It was measured before the run's first event, in one piece: 55 s in which nobody else got a token."""
    engine = DecodingEngine(pair.target, pair.draft, pair.tokenizer)
    pulse, most = engine.target.pulse, 0  # most forwards in one step
    settings = Settings.of(drafter="sequoia", temperature=1.0, max_new_tokens=4)
    heard = list[Progress]()
    first = before = pulse.forwards
    for event in engine.opening("abc", Lane.of(engine, settings)):
        most, before = max(most, pulse.forwards - before), pulse.forwards
        heard.append(event)
    assert len(heard) > 50  # moments at which another visitor could have had a turn
    assert most < (before - first) / 10
    assert last(engine.calibrated()) is engine.calibration


def test_who_stops_a_run_that_measures_waits_for_no_end(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "load_saved", lambda _: None)
    engine = DecodingEngine(pair.target, pair.draft, pair.tokenizer)
    settings = Settings.of(drafter="sequoia", temperature=1.0, max_new_tokens=4)
    asked = iter([False] * 5 + [True] * 9)
    heard = list(stoppable(engine.opening("abc", Lane.of(engine, settings)), lambda: next(asked)))
    assert len(heard) == 5 and all(isinstance(each, Progress) for each in heard)
    assert all(one._running is None for one in engine._calibrating.values())


def test_a_tokenizer_that_panics_in_a_run_ends_that_run_with_a_sentence(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PanicException(BaseException):
        """As the library raises it: no Exception."""

    def panic(*_: object) -> None:
        raise PanicException("index out of bounds")

    monkeypatch.setattr("draftscope.decode.race.race", panic)
    with pytest.raises(DraftscopeError, match="tokenizer of 'byte-target' cannot be used"):
        list(steps_of(pair, RunJob(id="r1", prompt="abc", lanes={"plain": Settings.of(drafter="plain")})))
