"""The log of rounds: its writer, its schema, and what no line may say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftscope.base.errors import DraftscopeError
from draftscope.log import RoundLog, schema, writer
from draftscope.log.entries import LoggedRound
from draftscope.log.log_summary import summarize
from draftscope.log.read import LineReader, entries, read, read_text
from draftscope.trace.result import read as read_result


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    with RoundLog(path, engine="mine 1.2", target="T", temperature=0.7, gamma=None) as log:
        log.round(draft=[5, 6, 7], accepted=2, tokens=[5, 6, 9], ms=3.5, request="a", position=4, p=[0.5, 0.25, 0.1])
        log.round(drafted=3, accepted=0, request="a", ended="eos", emitted=0)
        log.round(drafted=1, accepted=1, request="b")
    found = read(path)
    assert found.source == "a log of rounds"
    assert dict(found.facts).items() >= {"engine": "mine 1.2", "target": "T", "temperature": "0.7"}.items()
    assert [(each.request, each.round) for each in found.rounds] == [("a", 0), ("a", 1), ("b", 0)]
    assert found.rounds[0].draft == (5, 6, 7) and found.rounds[0].p == (0.5, 0.25, 0.1)
    assert [each.added for each in found.rounds] == [3, 0, 2]


def test_a_log_is_added_to(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    for _ in range(2):
        with RoundLog(path) as log:
            log.round(drafted=2, accepted=1)
    assert len(read(path).rounds) == 2


def test_arrays_and_unknown_numbers_are_written(tmp_path: Path) -> None:
    with RoundLog(tmp_path / "a") as log:
        log.round(draft=np.array([3, 4]), accepted=np.int64(1), p=[0.5, float("nan")], u=np.array([0.25, 0.5]))
    assert lines(tmp_path / "a")[1] == {
        "round": 0, "drafted": 2, "accepted": 1, "draft": [3, 4], "p": [0.5, None], "u": [0.25, 0.5],
    }  # fmt: skip


@pytest.mark.parametrize("wrong", [{"accepted": 3, "drafted": 2}, {"accepted": -1, "drafted": 2}, {"accepted": 0}])
def test_the_writer_refuses_what_cannot_be(tmp_path: Path, wrong: dict[str, int]) -> None:
    with RoundLog(tmp_path / "a") as log, pytest.raises(ValueError, match="drafted"):
        log.round(**wrong)


def test_threads_write_whole_lines(tmp_path: Path) -> None:
    with RoundLog(tmp_path / "a") as log:
        threads = [
            Thread(target=lambda: [log.round(drafted=4, accepted=1, draft=[1] * 4) for _ in range(50)])
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(each.round for each in read(tmp_path / "a").rounds) == list(range(400))


def test_the_writer_is_one_short_file_without_dependencies(tmp_path: Path) -> None:
    source = Path(writer.__file__).read_text()
    assert len(source.splitlines()) < 100
    (tmp_path / "copied.py").write_text(source)
    program = "import copied; copied.RoundLog('log').round(drafted=1, accepted=0)"
    subprocess.run([sys.executable, "-S", "-c", program], cwd=tmp_path, check=True)
    assert len(lines(tmp_path / "log")) == 2


def test_neither_writing_nor_reading_imports_torch() -> None:
    program = (
        "import sys, draftscope.log, draftscope.log.read, draftscope.log.log_summary; sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# The format.


def test_the_schema_in_the_tree_is_the_models() -> None:
    assert schema.SCHEMA.read_text() == schema.text(), "run: python -m draftscope.log.schema"


def test_the_readme_explains_every_field() -> None:
    rows = (Path(schema.__file__).parent / "README.md").read_text()
    assert not [name for name in LoggedRound.model_fields if f"`{name}`" not in rows]


ROUND = {"round": 0, "drafted": 2, "accepted": 1}


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"accepted": 3}, "too many"),
        ({"drafted": -1}, "drafted"),
        ({"drafted": 2.5}, "drafted"),
        ({"accepted": True}, "accepted"),
        ({"p": [0.5]}, "'p' has 1 values"),
        ({"p": [0.5, 1.5]}, "p.1"),
        ({"q": [0.5, "x"]}, "q.1"),
        ({"draft": [1, 2, 3]}, "'draft' has 3 values"),
        ({"parents": [0, -1]}, "after its child"),
        ({"tokens": [1, 2, 3]}, "3 tokens were added"),
        ({"ms": -1}, "ms"),
        ({"ended": "soon"}, "ended"),
        ({"drafted": 10**9}, "drafted"),
    ],
)
def test_a_line_that_cannot_be_is_named(wrong: dict[str, object], word: str) -> None:
    text = json.dumps(ROUND) + "\n" + json.dumps(ROUND | wrong) + "\n"
    with pytest.raises(DraftscopeError, match=r"Line 2 of the log cannot be") as raised:
        read_text(text)
    assert word in str(raised.value) and "\n" not in str(raised.value)


def test_a_line_that_breaks_off_is_left_out_and_said() -> None:
    found = read_text(json.dumps(ROUND) + "\n" + '{"round": 1, "draf')
    assert len(found.rounds) == 1 and "breaks off" in found.notes[0]


def test_infinity_and_nan_are_refused() -> None:
    with pytest.raises(DraftscopeError):
        read_text('{"round": 0, "drafted": 2, "accepted": 1, "ms": 1e999}')


def refusal(text: str) -> str:
    """The sentence by which a text is refused; empty if it is read."""
    try:
        read_text(text)
    except DraftscopeError as error:
        return str(error)
    return ""


def test_other_line_ends_within_a_text_do_not_end_a_line() -> None:
    line = json.dumps(ROUND | {"text": "a\u2028b\x0cc"}, ensure_ascii=False)
    assert read_text(line).rounds[0].text == "a\u2028b\x0cc"


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_in_a_sentence(text: str) -> None:
    assert "\n" not in refusal(text + "\n" + json.dumps(ROUND))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
NAMES = ("draft", "tokens", "p", "parents", "request", "emitted", "ms")


@given(st.dictionaries(st.sampled_from([*ROUND, *NAMES]), JSON))
def test_any_value_in_a_line_is_read_or_refused_in_a_sentence(values: dict[str, object]) -> None:
    assert "\n" not in refusal(json.dumps(ROUND | values))


def test_a_log_is_read_as_it_grows() -> None:
    reader = LineReader()
    grown = entries((json.dumps(ROUND | {"round": number}) for number in range(3)), reader)
    assert next(grown).round == 0 and reader.source == "a log of rounds"  # type: ignore[union-attr]
    assert [each.round for each in grown] == [1, 2]  # type: ignore[union-attr]


def test_rounds_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("draftscope.log.read.MAX_ROUNDS", 3)
    with pytest.raises(DraftscopeError, match="more than 3 rounds"):
        read_text("\n".join([json.dumps(ROUND)] * 4))


# What rounds come to.


def test_acceptance_by_position_is_of_the_rounds_that_drafted_it() -> None:
    rounds = [(3, 3), (3, 1), (1, 1), (2, 0), (0, 0)]
    found = read_text("\n".join(json.dumps({"round": 0, "drafted": d, "accepted": a}) for d, a in rounds))
    summary = summarize(found)
    assert summary.rounds == 4 and summary.tokens_per_round == 1 + 5 / 4 and summary.acceptance_rate == 5 / 9
    assert summary.emitted == 10  # the round without a draft wrote one as well
    assert [each.kept for each in summary.positions or ()] == [3, 1, 1]
    assert [each.reached for each in summary.positions or ()] == [4, 2, 1]  # a draft of one token did not reach two
    assert [each.conditional for each in summary.positions or ()] == [3 / 4, 1 / 2, 1]
    assert summary.histogram == (1, 2, 0, 1)


def test_a_tree_counts_by_depth() -> None:
    line = {"round": 0, "drafted": 4, "accepted": 2, "draft": [1, 2, 3, 4], "parents": [-1, -1, 0, 0]}
    summary = summarize(read_text(json.dumps(line)))
    assert [each.reached for each in summary.positions or ()] == [1, 1]
    assert [each.conditional for each in summary.positions or ()] == [1, 1]


def test_requests_count_alike_in_the_mean_of_requests() -> None:
    rounds = [("a", 2), ("a", 2), ("a", 2), ("b", 0)]
    written = [{"request": name, "round": 0, "drafted": 2, "accepted": kept} for name, kept in rounds]
    summary = summarize(read_text("\n".join(map(json.dumps, written))))
    assert summary.tokens_per_round == 2.5 and summary.tokens_per_round_by_request == 2.0


def test_what_is_not_known_is_named() -> None:
    known = {"draft": [1, 2], "tokens": [1, 9], "position": 3, "at_ms": 0, "ms": 1, "p": [0.5, 0.5]}
    some = summarize(read_text(json.dumps(ROUND | known) + "\n" + json.dumps(ROUND | {"draft": [1, 2]})))
    assert "which tokens were drafted" not in some.unknown and "q" in some.unknown
    assert "which tokens were written (in some rounds)" in some.unknown
    assert some.seconds is None and some.tokens_per_s is None


def test_a_trace_counts_as_in_its_metrics() -> None:
    path = Path("assets/traces/first.jsonl.gz")
    summary = summarize(read(path))
    runs = [run for run in read_result(path) if run.metrics.num_drafts]
    assert summary.rounds == sum(run.metrics.num_drafts for run in runs)
    assert summary.accepted == sum(run.metrics.num_accepted_tokens for run in runs)
    assert [each.share for each in summary.positions or ()] == runs[0].metrics.acceptance_rate_per_position
