"""Work that measures in the engine process, step by step: between any two, other visitors decode."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from draftscope.base import steps as steps_module
from draftscope.base.steps import Steps, last
from draftscope.decode import calibration
from draftscope.decode.engine import DecodingEngine

Work = Callable[[DecodingEngine, str], Iterator[Any]]  # of an engine and the name of a drafter

CHOOSES = ("sequoia", "eagle3-sequoia", "hybrid")  # drafters that choose by costs, which must be measured


def assert_one_thing_a_step(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, work: Work, drafter: str) -> None:
    """The rates of a copy and a product were measured in one step, and a check's costs; the others had no turn."""
    engine = DecodingEngine(pair.target, pair.draft, pair.tokenizer, pair.heads)
    timed = counted(monkeypatch)
    drained = watched(monkeypatch)
    most = total = 0
    for _ in work(engine, drafter):
        most, total = max(most, len(timed)), total + len(timed)
        timed.clear()
    assert total > 10 and most == 1
    assert drained == []


def counted(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was timed for a calibration, and is not counted yet."""
    timed: list[object] = []
    right = calibration._timed

    def timing(*given: Any) -> float:
        timed.append(None)
        return right(*given)

    monkeypatch.setattr(calibration, "_timed", timing)
    return timed


def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who took a step by `last` in this thread, except of reading a prompt."""
    drained: list[str] = []
    here = threading.current_thread()

    def watching(steps: Steps[Any, Any], see: Callable[[Any], object] = lambda _: None) -> Any:
        caller = sys._getframe(1).f_code.co_name

        def seen(item: Any) -> None:
            if threading.current_thread() is here and caller != "read":
                drained.append(caller)
            see(item)

        return last(steps, seen)

    for name, module in list(sys.modules.items()):
        if name.startswith("draftscope") and getattr(module, "last", None) is steps_module.last:
            monkeypatch.setattr(module, "last", watching)
    return drained
