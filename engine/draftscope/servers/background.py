"""Work that blocks, in threads that end with the program, whatever a server does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

Item = TypeVar("Item")


class _Over(Generic[Item]):
    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def in_background(work: Callable[[Callable[[Item], None]], None], patience: float = 0.05) -> Iterator[Item | None]:
    """What `work` puts, as it comes. Raises what it raises. None whenever nothing came for `patience` seconds: moments
    at which it may be stopped.

    Whoever stops iterating leaves the thread behind: `work` must end by itself soon after.
    """
    queue: SimpleQueue[Item | _Over[Item]] = SimpleQueue()

    def run() -> None:
        try:
            work(queue.put)
        except BaseException as error:  # raised again below, in the thread that iterates
            queue.put(_Over(error))
        else:
            queue.put(_Over(None))

    threading.Thread(target=run, name="draftscope-servers", daemon=True).start()
    while True:
        try:
            item = queue.get(timeout=patience)
        except Empty:
            yield None
            continue
        if isinstance(item, _Over):
            if item.error is not None:
                raise item.error
            return
        yield item


def at_once(calls: Sequence[Callable[[], Item]]) -> Iterator[Item]:
    """What the calls return, as they do. Raises what one of them raises."""
    results = [Future[Item]() for _ in calls]

    def run(result: Future[Item], call: Callable[[], Item]) -> None:
        try:
            result.set_result(call())
        except BaseException as error:  # raised again below
            result.set_exception(error)

    for pair in zip(results, calls, strict=True):
        threading.Thread(target=run, args=pair, name="draftscope-servers", daemon=True).start()
    yield from (result.result() for result in as_completed(results))
