"""Bars for the hub's client that tell, as a step of loading, how many megabytes have come, and of how many."""

from __future__ import annotations

from typing import Any

from tqdm import tqdm

from draftscope.base.stages import Stage, megabytes, teller


def bars(progress: bool, name: str) -> type:
    """A class of bars, shown where there is `progress`. Once all that is fetched is here, `name` is read.

    The client makes the bars, two for some files: what has arrived, and what of it is on the disk. It moves them in
    threads of its own.
    """
    tell = teller()
    bytes_of: set[Any] = set()  # the open bars that count bytes

    class HubBar(tqdm):  # type: ignore[type-arg] # at run time it takes no argument
        def __init__(self, *args: Any, **options: Any) -> None:
            options.pop("name", None)  # for the client's own bars
            super().__init__(*args, **options | {"disable": not progress})
            if options.get("unit") == "B":
                bytes_of.add(self)

        def update(self, n: float | None = 1) -> bool | None:
            moved = super().update(n)
            if self.disable:  # a bar that is not shown does not count
                self.n += n or 0
            if self in bytes_of:
                tell_bytes()
            return moved

        def close(self) -> None:
            super().close()
            bytes_of.discard(self)

    def tell_bytes() -> None:
        counted = tuple(bytes_of)
        whole = int(min(bar.total or 0 for bar in counted))
        done = int(max(bar.n for bar in counted))
        if done < whole:
            tell(Stage.FETCH, megabytes(done, whole), done / whole)
        elif whole:
            tell(Stage.READ, name, 0.0)

    return HubBar
