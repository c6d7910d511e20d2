"""Work that blocks, in threads that end with the program, whatever a server does."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import closing
from queue import Empty, SimpleQueue
from typing import TypeVar

from draftscope.base.steps import Cancelled, Steps, last

Item = TypeVar("Item")
Found = TypeVar("Found")
PATIENCE_S = 0.05  # without anything new, until None is yielded


def in_background(steps: Steps[Item, Found]) -> Steps[Item | None, Found]:
    """The same steps and the same result, from a thread; None while nothing comes: moments at which it may be stopped.

    Whoever stops leaves the thread behind, which closes the steps at their next one: they must come to it soon.
    """
    (result,) = yield from at_once([steps])
    return result


def at_once(works: Sequence[Steps[Item, Found]]) -> Steps[Item | None, list[Found]]:
    """What all of them say, as it comes, each in a thread of its own; and their results. Raises what one of them
    raises."""
    queue: SimpleQueue[Item | Future[Found]] = SimpleQueue()
    stop, results = threading.Event(), [Future[Found]() for _ in works]

    def say(item: Item) -> None:
        if stop.is_set():
            raise Cancelled
        queue.put(item)

    def run(steps: Steps[Item, Found], result: Future[Found]) -> None:
        with closing(steps):
            try:
                result.set_result(last(steps, say))
            except BaseException as error:  # raised again below, in the thread that iterates
                result.set_exception(error)
        queue.put(result)

    for pair in zip(works, results, strict=True):
        threading.Thread(target=run, args=pair, name="draftscope-servers", daemon=True).start()
    left = len(works)
    try:
        while left:
            try:
                item = queue.get(timeout=PATIENCE_S)
            except Empty:
                yield None
                continue
            if isinstance(item, Future):
                item.result()
                left -= 1
            else:
                yield item
    finally:
        stop.set()
    return [result.result() for result in results]
