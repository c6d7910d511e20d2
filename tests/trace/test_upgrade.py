"""Traces of version 1 still load: renamed fields hold what they held."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.decode.lab import Lab
from draftscope.trace import files

OLD = {"decisions": "contests", "distributions": "laws", "uniform": "coin"}


def as_version_1(value: Any) -> Any:
    """An event of version 2 as version 1 wrote it."""
    if isinstance(value, list):
        return [as_version_1(each) for each in value]
    if not isinstance(value, dict):
        return value
    old = {OLD.get(name, name): as_version_1(each) for name, each in value.items()}
    if old.get("scale") == "probs":
        old["scale"] = "law"
    if old.get("fate") == "never_accepted":
        old["fate"] = "scout"
    if "accept" in old and "verify" in old:
        old["judge"] = old.pop("accept")
    if "schema_version" in old:
        old["schema_version"] = 1
    return old


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("drafter", ["draft", "sampled-tree", "lookahead", "ngram", "plain"])
def test_a_trace_of_version_1_reads_as_the_same_events(
    pair: Lab, tmp_path: Path, drafter: str, temperature: float
) -> None:
    events = pair.decode("abcabcab", drafter, temperature=temperature, seed=3, max_new_tokens=24).events
    old = tmp_path / "old.jsonl"
    lines = [json.dumps(as_version_1(json.loads(files.line(event)))) for event in events]
    assert any('"contests"' in line for line in lines)
    assert drafter != "lookahead" or any('"scout"' in line for line in lines)
    old.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert files.read(old).events == events


def test_a_recording_of_version_1_loads() -> None:
    """It was shipped as a lesson until 2026-11-22."""
    path = Path(__file__).with_name("version_1.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        first, *rest = file
    assert json.loads(first)["schema_version"] == 1
    assert len(files.read(path).events) == 1 + len(rest)


def test_a_damaged_round_of_version_1_breaks_the_file_off(pair: Lab, tmp_path: Path) -> None:
    events = pair.decode("abc", max_new_tokens=4).events
    start, *rounds = [as_version_1(json.loads(files.line(event))) for event in events]
    broken = {**rounds[1], "contests": 5}
    (tmp_path / "old.jsonl").write_text("\n".join(map(json.dumps, [start, rounds[0], broken])), encoding="utf-8")
    read = files.read(tmp_path / "old.jsonl")
    assert len(read.events) == 2
    assert "breaks off after 2 events" in read.warning
    (tmp_path / "none.jsonl").write_text(json.dumps(rounds[1]), encoding="utf-8")
    with pytest.raises(DraftscopeError, match="does not begin with the start of a run"):
        files.read(tmp_path / "none.jsonl")
