"""How many processor cores this process may use: more threads than that would wait for each other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

CGROUP, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """The cores it may run on (as with `taskset`), or fewer where a container grants less time (as with
    `docker run --cpus`). Part of a core does not count, except that at least one core does."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min([allowed, *_granted()])))


def _granted() -> Iterator[float]:
    """Cores' worth of time that each group of processes has in which this one is; nothing for a group without limit."""
    for folder in _groups():
        with suppress(OSError, ValueError):  # no such file, or "max"
            quota, period = (folder / "cpu.max").read_text().split()
            yield int(quota) / int(period)
        with suppress(OSError, ValueError):  # an older kernel's files; -1: no limit
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
            if int(quota) > 0:
                yield int(quota) / int(period)


def _groups() -> Iterator[Path]:
    """The folders of these groups, from the innermost. In a container the outermost has the container's limits."""
    try:
        lines = CGROUP.read_text().splitlines()
    except OSError:
        return
    for line in lines:  # number:controllers:path
        _, controllers, path = line.split(":", 2)
        if not controllers or "cpu" in controllers.split(","):
            place = PurePosixPath(path.lstrip("/"))
            for group in (place, *place.parents):
                yield GROUPS / ("cpu" if controllers else "") / group
