"""Prompt files: every standard form is read, and every line that cannot be is named while the rest goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftscope.base.errors import DraftscopeError
from draftscope.base.prompts import Prompt, read, select, shipped

JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["prompt", "turns", "role", "text", "body", "input"]), inner)
    ),
)


def file_of(folder: Path, *lines: Any) -> Path:
    """Objects become JSON, bytes stand as they are."""
    path = folder / "bench.jsonl"
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
    return path


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ({"prompt": "Go on"}, "Go on"),
        ({"text": "Go on"}, "Go on"),
        ({"question": "Why?", "answer": "So."}, "Why?"),
        ({"turns": ["First", "then"]}, "First"),
        ({"prompt": ["First", "then"]}, "First"),
        ({"instruction": "Add", "input": "1 and 2", "output": "3", "text": "all of it, answer too"}, "Add\n\n1 and 2"),
        ({"instruction": "Add", "input": ""}, "Add"),
        ({"messages": [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Why?"}]}, "Why?"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "Wh"}, {"text": "y?"}]}]}, "Why?"),
        (
            {
                "custom_id": "1",
                "method": "POST",
                "body": {"model": "m", "messages": [{"role": "user", "content": "Why?"}]},
            },
            "Why?",
        ),
        (
            {
                "time": "12:00",
                "status": 200,
                "request": {"prompt": "Go on", "max_tokens": 9},
                "response": {"text": "no"},
            },
            "Go on",
        ),
        ({"path": "/v1/completions", "request_body": '{"prompt": "Go on"}'}, "Go on"),
        ({"input": {"messages": [{"role": "user", "content": "Why?"}]}, "output": {"text": "So."}}, "Why?"),
        ({"task_id": "HumanEval/0", "prompt": "def f():\n", "canonical_solution": "pass"}, "def f():\n"),
    ],
)
def test_every_standard_form_is_read(tmp_path: Path, line: dict[str, Any], text: str) -> None:
    found, notes = read(file_of(tmp_path, line))
    assert (found, notes) == ([Prompt("bench", text)], [])


@pytest.mark.parametrize("field", ["category", "kind", "task"])
def test_the_kind_is_read_or_is_the_files_name(tmp_path: Path, field: str) -> None:
    lines = {"prompt": "a", field: " two\nwords "}, {"prompt": "b", field: 7}, {"prompt": "c"}
    assert [prompt.kind for prompt in read(file_of(tmp_path, *lines))[0]] == ["two words", "bench", "bench"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"prompt": ', "line 2 is not JSON (expecting value)"),
        (b'{"prompt": "\xff"}', "line 2 is not valid UTF-8"),
        (b"[1]", "line 2 is not a JSON object"),
        (b'"words"', "line 2 is not a JSON object"),
        (b"[" * 100_000, "line 2 is nested too deeply"),
        ({"answer": "So."}, "line 2 has none of the fields turns, messages, instruction, prompt, question, text"),
        ({"prompt": 7}, "line 2 has no text in 'prompt'"),
        ({"turns": []}, "line 2 has no text in 'turns'"),
        ({"messages": [{"role": "system", "content": "Be brief"}]}, "line 2 has no text in 'messages'"),
        ({"prompt": " \n"}, "line 2 is left out: The prompt is empty"),
        (b'{"prompt": "\\ud800"}', "line 2 is left out: prompt contains \\ud800, which is half of a character"),
    ],
)
def test_a_broken_line_is_named_and_the_rest_goes_on(tmp_path: Path, line: Any, why: str) -> None:
    found, (note,) = read(file_of(tmp_path, {"prompt": "a"}, line, b"", {"prompt": "b"}))
    assert [prompt.text for prompt in found] == ["a", "b"]
    assert note.startswith("bench.jsonl: 1 of 3 lines were skipped: ")
    assert why in note


def test_many_broken_lines_are_counted(tmp_path: Path) -> None:
    _, (note,) = read(file_of(tmp_path, {"prompt": "a"}, *[b"x"] * 9))
    assert note.startswith("bench.jsonl: 9 of 10 lines were skipped: line 2 ")
    assert note.endswith("; and 6 more.")


@pytest.mark.parametrize("lines", [(), (b"nothing",), (b"",)])
def test_a_file_without_a_usable_line_is_one_sentence(tmp_path: Path, lines: tuple[bytes, ...]) -> None:
    with pytest.raises(DraftscopeError, match=r"bench.jsonl' has no usable line"):
        read(file_of(tmp_path, *lines))


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.jsonl"):
        with pytest.raises(DraftscopeError, match="cannot be read"):
            read(path)


def test_a_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "windows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"prompt": "a"}\r\n{"prompt": "b"}\r\n')
    assert [prompt.text for prompt in read(path)[0]] == ["a", "b"]


@given(st.lists(st.binary(max_size=40) | JSON, max_size=6))
def test_whatever_a_file_holds_it_is_read_or_refused_in_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Any]
) -> None:
    path = file_of(tmp_path_factory.mktemp("any"), *lines)
    try:
        found, notes = read(path)
    except DraftscopeError:
        return
    assert found
    assert all(prompt.text.strip() and prompt.kind.strip() and prompt.text.encode() for prompt in found)
    assert all(note.endswith(".") for note in notes)


def test_kinds_are_chosen_by_name_and_the_first_of_each_can_be_asked_for() -> None:
    prompts = [Prompt("a", "1"), Prompt("b", "2"), Prompt("a", "3")]
    assert select(prompts) == {"a": [prompts[0], prompts[2]], "b": [prompts[1]]}
    assert select(prompts, ("b", "a"), 1) == {"b": [prompts[1]], "a": [prompts[0]]}
    with pytest.raises(DraftscopeError, match=r"There is no kind of text 'c'; choose from a, b\."):
        select(prompts, ("c",))


def test_the_shipped_prompts_are_there() -> None:
    assert len(select(shipped())) >= 6


def test_a_parquet_file_that_is_none_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_text("hello")
    with pytest.raises(DraftscopeError, match="is no Parquet"):
        read(path)
    with pytest.raises(DraftscopeError, match="cannot be read"):
        read(tmp_path / "missing.parquet")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"other": 1}]), path)
    with pytest.raises(DraftscopeError, match="has no usable line"):
        read(path)
