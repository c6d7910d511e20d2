"""Which worker runs what, when pytest-xdist runs the suite in several: files that share a server stay together, and
what takes longest starts first, so that no worker ends long after the others. The page's tests have one server, with an
engine process: one worker has them from the first second, while the others compute.
"""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

TOGETHER = {
    "tests/browser, one server": (
        "tests/browser/test_page*.py",
        "tests/browser/test_doors.py",
        "tests/browser/test_reload.py",
        "tests/browser/test_composer.py",
        "tests/browser/test_light.py",
        "tests/browser/test_reach.py",
        "tests/browser/test_tabs.py",
        "tests/browser/test_kept_runs.py",
        "tests/doors/*/test_page_*.py",
        "tests/browser/test_other_models.py",  # the last: it loads others into the server
    ),
    "one engine process": (
        "tests/app/test_app_process.py",
        "tests/app/test_asks_process.py",
        "tests/app/test_beats.py",
        "tests/app/test_own_models.py",
        "tests/doors/decide/check/test_check_process.py",
        "tests/doors/decide/compare/test_compare_process.py",
    ),
}
LONGEST = (  # in time; whatever is not named follows in the order of its name
    *TOGETHER["tests/browser, one server"],
    "tests/lab/space/test_space_page.py",
    "tests/decode/test_distribution.py",
    "tests/models/test_rehearsal.py",
    "tests/lab/train/*",
    "tests/doors/servers/museum/test_museum.py",
    "tests/doors/servers/audit/test_audit_action.py",
    "tests/app/test_ending.py",
    *TOGETHER["one engine process"],
    "tests/doors/learn/lessons/test_lessons.py",
    "tests/models/test_architectures.py",
    "tests/models/test_graphs.py",
    "tests/models/test_on_card.py",
    "tests/decode/*",
    "tests/drafters/*",
    "tests/browser/test_played.py",
    "tests/app/*",
    "tests/models/*",
    "tests/verify/*",
    "tests/browser/*",
    "tests/measure/*",
)


class Rooms(LoadFileScheduling):  # type: ignore[misc]
    """A file, or the files that belong together, to one worker; in the order in which they were collected."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return next((name for name, files in TOGETHER.items() if _among(file, files)), file)


def longest_first(items: list[pytest.Item]) -> None:
    """Puts the items in the order in which workers should take them."""
    items.sort(key=lambda item: _place(item.nodeid.partition("::")[0]))


def _place(file: str) -> int:
    return next((place for place, pattern in enumerate(LONGEST) if fnmatch(file, pattern)), len(LONGEST))


def _among(file: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(file, pattern) for pattern in patterns)
