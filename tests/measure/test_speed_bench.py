"""SPEED-Bench, which its licence forbids to ship: files in its two forms, made here, are read and measured.

It is published as Parquet, without the texts of others; NVIDIA's prepare.py fetches those and writes JSON lines.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from draftscope.base.prompts import MASKED, Prompt, read, select
from draftscope.decode.engine import DecodingEngine
from tests.support.command import command_line, instead_of_loading

REST = {"sub_category": None, "source": "mt-bench", "src_id": "81", "difficulty": None, "multiturn": True}
LEFT_OUT = "1 of 3 lines were skipped: line 2 is a text of others"


def row(number: int, category: str, **text: Any) -> dict[str, Any]:
    return {"question_id": f"{number:03}", "category": category, **text, **REST}


@pytest.fixture
def published(tmp_path: Path) -> Path:
    rows = [
        row(1, "coding", turns=["Write a sort.", "Now in C."]),
        row(2, "math", turns=[f"{MASKED} USING SPECDEC_BENCH"]),
        row(3, "roleplay", turns=["You are a cook."]),
    ]
    path = tmp_path / "test-00000-of-00001.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    texts = {"low_entropy": "Sort this.", "high_entropy": "Tell me a story."}
    lines = [
        row(number, kind, messages=[{"role": "user", "content": text}])
        for number, (kind, text) in enumerate(texts.items())
    ]
    path = tmp_path / "throughput_1k.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


def test_it_is_read_as_it_is_published(published: Path) -> None:
    found, (note,) = read(published)
    assert found == [Prompt("coding", "Write a sort."), Prompt("roleplay", "You are a cook.")]
    assert LEFT_OUT in note and "prepare.py" in note
    assert list(select(found, ["roleplay"])) == ["roleplay"]


def test_it_is_read_as_it_is_prepared(prepared: Path) -> None:
    assert read(prepared) == ([Prompt("low_entropy", "Sort this."), Prompt("high_entropy", "Tell me a story.")], [])


def test_bench_measures_its_categories_as_kinds_of_text(
    capsys: pytest.CaptureFixture[str],
    pair: DecodingEngine,
    monkeypatch: pytest.MonkeyPatch,
    published: Path,
    tmp_path: Path,
) -> None:
    instead_of_loading(monkeypatch, pair)
    bench = command_line(capsys, "bench", "--out", tmp_path, "--prompts", published, "--tokens", "4", "--repeats", "1")
    ran = bench("--drafters", "ngram", "--no-peers", "--json")
    assert ran.code == 0 and LEFT_OUT in ran.err
    assert {row["kind"] for row in ran.json["rows"]} == {"coding", "roleplay"}
    one = bench("--drafters", "ngram", "--no-peers", "--json", "--kinds", "roleplay")
    assert {row["kind"] for row in one.json["rows"]} == {"roleplay"}
