"""Work in threads: its steps and its result, several at the same moment, and how it ends once it is stopped."""

from __future__ import annotations

import time
from threading import Barrier, Event

import pytest

from draftscope.base.steps import Steps, said
from draftscope.servers.background import at_once, in_background


def counting(ended: Event) -> Steps[int, str]:
    try:
        for number in range(10**9):
            yield number
            time.sleep(0.001)
    finally:
        ended.set()
    return "never"


def test_the_steps_and_the_result_of_work_come_from_its_thread() -> None:
    def work() -> Steps[int, str]:
        yield 1
        time.sleep(0.2)
        yield 2
        return "done"

    seen: list[int | None] = []

    def kept() -> Steps[int | None, None]:
        result = yield from in_background(work())
        assert result == "done"

    seen += kept()
    assert list(said(seen)) == [1, 2] and seen.count(None) >= 1  # moments at which it may be stopped


def test_work_that_is_stopped_is_closed() -> None:
    ended = Event()
    steps = in_background(counting(ended))
    assert next(steps) == 0 and not ended.is_set()
    steps.close()
    assert ended.wait(5)


def test_all_begin_at_the_same_moment_and_an_error_of_one_is_raised() -> None:
    together = Barrier(3)

    def work(name: str) -> Steps[str, str]:
        together.wait(5)
        yield name
        if name == "bad":
            raise ValueError(name)
        return name

    steps = at_once([work("a"), work("b"), work("c")])
    assert sorted(said(steps)) == ["a", "b", "c"]
    ended = Event()
    together = Barrier(1)
    with pytest.raises(ValueError, match="bad"):
        list(at_once([work("bad"), counting(ended)]))
    assert ended.wait(5)
