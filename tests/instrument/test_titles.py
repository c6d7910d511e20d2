"""What a lane is called, under node as the page calls it: every drafter's draft has its size, whoever wrote it."""

from __future__ import annotations

from typing import Any, get_args

from draftscope.base.common_settings import LOSSY
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.lane import Lane
from draftscope.decode.start import EncodedPrompt, run_start
from draftscope.drafters import known
from draftscope.drafters.settings import Settings
from draftscope.trace.events import Rule
from tests.support.node import call

FILES = ["run/titles.js", "base/rules.js"]
SIZES = {"gamma": "γ 3", "shape": "2, 2", "tree_nodes": "7 nodes"}


def titles(starts: list[dict[str, Any]]) -> list[str]:
    return call(FILES, [("titleOf", [{"name": "lane", "start": start}]) for start in starts])


def test_every_drafters_title_has_the_size_that_it_reads(tiny: DecodingEngine) -> None:
    """All sizes are given, and each drafter is called after the one it reads."""
    starts, expected = [], []
    for name, info in known().items():
        if info.needs_head and info.needs_head not in tiny.heads:
            continue
        settings = Settings.of(drafter=name, gamma=3, shape=(2, 2), tree_nodes=7)
        start = run_start(tiny, Lane.of(tiny, settings), EncodedPrompt("a", "", [1]), "run", "run")
        starts.append(start.model_dump(exclude_none=True))
        size = next((text for option, text in SIZES.items() if option in info.uses), None)
        expected.append(info.title if size is None else f"{info.title} · {size}")
    assert titles(starts) == expected
    assert {"DSpark block drafter, chain · γ 3", "Suffix decoding, tree · 7 nodes", "Plain decoding"} <= set(expected)


def test_an_older_traces_title_has_the_size_that_was_given() -> None:
    given = [{"gamma": 4}, {"gamma": 4, "shape": [2, 1]}, {"tree_nodes": 9}, {}]
    starts = [{"drafter": "x", "settings": settings} for settings in given]
    assert titles(starts) == ["x · γ 4", "x · 2, 1", "x · 9 nodes", "x"]


def test_a_server_is_called_after_its_program() -> None:
    servers = [{"program": "made", "title": "Made-up server", "version": "1.0"}, {"program": "vllm"}, {"program": ""}]
    assert titles([{"server": server} for server in servers]) == ["Made-up server 1.0", "vllm", "no answer"]


def test_the_lossy_rules_are_those_of_the_engine() -> None:
    rules = [*get_args(Rule)]
    marks = call(FILES, [("lossyBadge", [{"exact": False, "rule": rule}]) for rule in rules])
    assert marks == [f"lossy: {rule}" if rule in LOSSY else "lossy" for rule in rules]


def test_a_drafter_that_nobody_checked_is_marked() -> None:
    runs = [(True, None), (True, True), (False, None)]
    starts = [{"exact": exact, "unchecked": unchecked, "rule": "typical"} for exact, unchecked in runs]
    marks = call(FILES, [("lossyBadge", [start]) for start in starts])
    assert marks == ["", "exact: unchecked", "lossy: typical"]
