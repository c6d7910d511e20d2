"""Recorded stories: nothing impossible in them, nothing lost on the way to disk and back."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from draftscope import DraftscopeError, drafters
from draftscope.decode.engine import DecodingEngine
from draftscope.trace import files, metrics
from draftscope.trace.events import EVENT, AnyEvent, Distributions, Round
from draftscope.trace.validate import MAX_LANES, ImpossibleError, validate
from draftscope.verify import rules


def check_story(events: Sequence[AnyEvent]) -> None:
    """Nothing impossible by `validate`, which files are read with, but held to tighter sums than a file."""
    validate(events, mass=2e-5)
    for event in events:
        for decision in event.decisions if isinstance(event, Round) else []:
            if decision.rule == "rrsw":
                for (before, after), child in zip(pairwise(decision.distributions), decision.children, strict=False):
                    check_renewed(before, after, event.nodes[child.node].token)


def check_renewed(before: Distributions, after: Distributions, token: int) -> None:
    """The next sibling faces norm(P - Q)+ and Q without the rejected token."""
    if before.rest_p > 1e-6 or before.rest_q > 1e-6:
        return  # only where every token is shown can the distribution be worked out from what is shown
    order = [before.ids.index(i) for i in after.ids]
    p, q = [before.p[i] for i in order], [before.q[i] for i in order]
    assert after.p == pytest.approx(rules.residual(p, q), abs=1e-4)
    assert after.q == pytest.approx(rules.without(q, after.ids.index(token)), abs=1e-4)


@hypothesis_settings(max_examples=80, deadline=None)
@given(
    drafter=st.sampled_from(sorted(drafters.known())),
    rule=st.sampled_from(["token", "block", "typical", "lenient", "top-k"]),
    temperature=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    top_k=st.sampled_from([0, 2, 3]),
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    gamma=st.integers(1, 5),
    seed=st.integers(0, 2**40),
    limit=st.integers(1, 16),
)
def test_every_recorded_story_is_possible(tiny: DecodingEngine, **settings: object) -> None:
    limit = settings.pop("limit")
    run = tiny.decode("abcabcab", typed="abcde", max_new_tokens=limit, **settings)
    check_story(run.events)
    assert "".join(event.text_delta for event in run.round_events) == run.text
    assert [token for event in run.round_events for token in event.emitted] == run.token_ids
    assert [EVENT.validate_json(files.line(event)) for event in run.events] == list(run.events)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    "drafter", ["draft", "sampled-tree", "topk-tree", "ngram", "eagle3", "eagle3-tree", "block-tree"]
)
def test_stories_over_bytes_are_possible_too(pair: DecodingEngine, drafter: str, temperature: float) -> None:
    run = pair.decode("abcabcab\u00e9\u20ac", drafter, temperature=temperature, max_new_tokens=32)
    check_story(run.events)
    pieces = [
        (token, raw) for event in run.round_events for token, raw in zip(event.emitted, event.emitted_raw, strict=True)
    ]
    written = b"".join(raw.encode("latin-1") for token, raw in pieces if not pair.pieces.is_special(token))
    assert written.decode("utf-8", "replace") == run.text


def test_the_start_says_everything_that_ran(pair: DecodingEngine) -> None:
    start = pair.decode("ab", seed=9, temperature=0.5, max_new_tokens=2).events[0]
    assert (start.drafter, start.seed, start.dtype, start.device) == ("draft", 9, "float32", "CPU")
    assert start.settings["temperature"] == 0.5
    assert [(model.role, model.layers) for model in start.models] == [("target", 2), ("draft", 1)]
    assert start.prompt_tokens == 2


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz"])
def test_a_trace_survives_the_disk(pair: DecodingEngine, tmp_path: Path, name: str) -> None:
    events = pair.decode("hello", temperature=1.0, max_new_tokens=12).events
    files.write(tmp_path / name, events)
    assert files.read(tmp_path / name) == files.Recording(events)


@pytest.mark.parametrize("zipped", [False, True])
def test_a_truncated_trace_keeps_what_is_whole(pair: DecodingEngine, tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / ("run.jsonl.gz" if zipped else "run.jsonl")
    files.write(path, pair.decode("hello", max_new_tokens=12).events)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    recording = files.read(path)
    assert recording.events
    assert "breaks off after" in recording.warning


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"hello\n", "is not a Draftscope trace"),
        (b'{"kind": "song"}\n', "is not a Draftscope trace"),
        (b"[1, 2]\n", "is not a Draftscope trace"),
        (b"\x80\xff\x00\n", "is not a Draftscope trace"),
        (b"\x1f\x8bnot gzip", "is not a Draftscope trace"),
        (gzip.compress(b"PK", mtime=0), "is not a Draftscope trace"),
        (b'{"kind": "run_start", "schema_version": 99}\n', "trace version 99, and this Draftscope reads version 3"),
        (b'{"kind": "run_start", "schema_version": 2}\n', "trace version 2, and this Draftscope reads version 3"),
        (
            b'{"kind": "run_start", "schema_version": "2"}\n',
            r"trace version as \"2\", which is no whole number",
        ),
        (b'{"kind": "run_start", "schema_version": 2.0}\n', r"trace version as 2\.0, which is no whole number"),
        (b'{"kind": "run_start", "schema_version": true}\n', "trace version as true, which is no whole number"),
        (b'{"kind": "run_start", "schema_version": null}\n', "trace version as null, which is no whole number"),
        (b'{"kind": "run_start", "schema_version": [1, 2]}\n', r"trace version as \[1,2\], which is no whole number"),
        (b'{"kind":"prefill","run":"r","lane":"l","tokens":1,"start":0,"end":1}\n', "first lines are missing"),
    ],
)
def test_a_foreign_file_is_one_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "file.jsonl"
    path.write_bytes(content)
    with pytest.raises(DraftscopeError, match=sentence):
        files.read(path)


START = b'{"kind":"run_start","run":"r","lane":"l",'
EMPTY = b"{},"


def runs_of(start: bytes, count: int) -> bytes:
    """The starts of so many runs."""
    return b"".join(start.replace(b'"run":"', b'"run":"%d' % number) for number in range(count))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (lambda start: b"[[]," + b"[]," * (15 * files.MIB // 3) + b"[]]\n", "a line of more than 500,000 values"),
        (lambda start: b"[" * (20 * files.MIB), "a line of more than 16 MiB"),
        (lambda start: b"[" * 100_000 + b"]" * 100_000, "is not a Draftscope trace"),
        (lambda start: start + b"[" * 100_000 + b"]" * 100_000, "breaks off after 1 events"),
        (lambda start: b"\n" * (20 * files.MIB), "more than 1,000 empty lines"),
        (lambda start: (b" " * 1000 + b"\n") * (20 * files.MIB // 1001), "more than 1,000 empty lines"),
        (lambda start: b'{"schema_version":' + b"9" * 5000 + b"}\n", "is not a Draftscope trace"),
        (lambda start: b'{"schema_version":' + b"9" * 4000 + b"}\n", r"trace version 9{80}\.\.\., and"),
        (lambda start: start + b'{"kind":"round","nodes":[' + EMPTY * 200_000 + b"{}]}\n", "breaks off after 1 events"),
        (lambda start: START + b'"models":[' + EMPTY * 200_000 + b"{}]}\n", "is not a Draftscope trace"),
        (lambda start: START + b",".join(b'"%x":1' % i for i in range(400_000)) + b"}\n", "is not a Draftscope trace"),
        (lambda start: runs_of(start, 40_000), "is larger than 24 MiB unpacked"),
    ],
)  # fmt: skip
def test_a_small_file_that_unpacks_to_much_is_refused_at_once(
    pair: DecodingEngine, tmp_path: Path, content: Callable[[bytes], bytes], sentence: str
) -> None:
    """Kilobytes of gzip, which took up to two minutes and 17 GB."""
    path = tmp_path / "small.jsonl.gz"
    start = files.line(pair.decode("a", max_new_tokens=1).events[0]).encode() + b"\n"
    path.write_bytes(gzip.compress(content(start), 1))
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.thread_time()
    try:
        said = files.read(path, 24 * files.MIB).warning
    except DraftscopeError as error:
        said = str(error)
    assert re.search(sentence, said)
    if "MiB unpacked" not in said:  # that one is full of whole events
        assert time.thread_time() - began < 5.0
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 * 1024


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda number: {}, "a run has more than 10,000 events beside its rounds"),
        (lambda number: {"sequence": number % 3000}, "a run has more than 10,000 events beside its rounds"),
        (lambda number: {"sequence": number}, "in lane 'run', more than 4,096 texts are decoded at once"),
    ],
)
def test_a_prompt_that_is_read_without_end_is_refused(
    pair: DecodingEngine, tmp_path: Path, change: Callable[[int], dict[str, int]], sentence: str
) -> None:
    """300,000 such lines of several texts were taken, and not shown within a minute."""
    start, prefill, *_ = pair.decode("a", max_new_tokens=1).events
    path = tmp_path / "long.jsonl"
    files.write(path, [start, *(prefill.model_copy(update=change(number)) for number in range(12_000))])
    with pytest.raises(DraftscopeError, match=f"'long.jsonl' cannot be right: {sentence}; record the run again."):
        files.read(path)


def test_more_lanes_than_a_page_can_show_are_refused(pair: DecodingEngine) -> None:
    start = pair.decode("a", max_new_tokens=1).events[0]
    lanes = [start.model_copy(update={"lane": str(n)}) for n in range(MAX_LANES + 1)]
    validate(lanes[:-1])
    with pytest.raises(ImpossibleError, match="more than 256 lanes"):
        validate(lanes)


def test_many_runs_are_read_in_linear_time(pair: DecodingEngine, tmp_path: Path) -> None:
    start, prefill, *_ = pair.decode("a", max_new_tokens=1).events
    runs = [start.model_copy(update={"run": str(n)}) for n in range(20_000)]
    events = [e for run in runs for e in (run, prefill.model_copy(update={"run": run.run}))]
    began = time.thread_time()
    validate(events)
    assert time.thread_time() - began < 2.0  # it was a minute


RAWS = {  # where the bytes of a token stand, and what a stranger writes there
    "emitted_raw": lambda lines: lines["round"]["emitted_raw"].__setitem__(0, "\u20ac"),
    "last": lambda lines: lines["round"]["last"].update(raw="\u0100"),
    "nodes": lambda lines: lines["round"]["nodes"][0].update(raw="\U0001f600"),
    "distributions": lambda lines: lines["round"]["decisions"][0]["distributions"][0]["raw"].__setitem__(0, "\u20ac"),
    "prompt_last_raw": lambda lines: lines["run_start"].update(prompt_last_raw="a\u20ac"),
    "fork": lambda lines: lines["run_start"].update(
        fork={"lane": "l", "round": 0, "token_ids": [1], "raw": ["\u20ac"], "forced": False}
    ),
}


@pytest.mark.parametrize("place", RAWS)
def test_bytes_of_a_token_that_are_no_bytes_are_refused(pair: DecodingEngine, tmp_path: Path, place: str) -> None:
    """They were taken, and `export` ended in a UnicodeEncodeError."""
    events = pair.decode("hello", temperature=1.0, seed=3, max_new_tokens=8).events
    kinds = {event.kind: json.loads(files.line(event)) for event in reversed(events)}
    RAWS[place](kinds)
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(json.dumps(kinds[kind]) for kind in ("run_start", "prefill", "round")), encoding="utf-8")
    with pytest.raises(DraftscopeError, match=r"cannot be right: .*which is no byte; record the run again\."):
        files.read(path)


def test_half_a_character_in_a_trace_is_refused(pair: DecodingEngine, tmp_path: Path) -> None:
    start = files.line(pair.decode("a", max_new_tokens=1).events[0])
    path = tmp_path / "run.jsonl"
    for half in ('"\\ud800"', '"\\udfff"'):
        path.write_text(start.replace('"prompt":"a"', f'"prompt":{half}') + "\n", encoding="utf-8")
        with pytest.raises(DraftscopeError, match="is not a Draftscope trace"):
            files.read(path)


def test_a_pipe_is_refused_before_it_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(DraftscopeError, match="not a regular file"):
        files.read(tmp_path / "pipe.jsonl")


def test_a_missing_file_and_an_unwritable_one_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DraftscopeError, match="cannot be read"):
        files.read(tmp_path / "none.jsonl")
    with pytest.raises(DraftscopeError, match="cannot be written"):
        files.write(tmp_path, [])


def test_metrics_are_folded_by_their_definitions(pair: DecodingEngine) -> None:
    twin = DecodingEngine(pair.target, pair.target, pair.tokenizer)
    run = twin.decode("hello", gamma=3, max_new_tokens=12)  # three rounds: 3 accepted and a bonus each
    found = run.metrics
    assert (found.num_drafts, found.num_draft_tokens, found.num_accepted_tokens, found.tokens) == (3, 9, 9, 12)
    assert found.mean_acceptance_length == 4.0
    assert found.draft_acceptance_rate == 1.0
    assert found.acceptance_rate_per_position == [1.0] * 3
    assert found.conditional_acceptance_per_position == [1.0] * 3
    assert found.itl_ms.p50 == 0.0  # tokens of a round arrive together
    assert found.icl_ms.p50 > 0
    assert found.ttft_ms == run.round_events[0].end
    assert found.tokens_per_s == pytest.approx(12e3 / run.events[-1].end)


def test_metrics_of_plain_and_of_nothing(pair: DecodingEngine) -> None:
    plain = pair.decode("hello", "plain", max_new_tokens=5).metrics
    assert (plain.num_drafts, plain.draft_acceptance_rate, plain.tokens_per_round) == (0, None, 1.0)
    assert plain.tpot_ms > 0
    nothing = metrics.fold([])
    assert (nothing.tokens, nothing.tokens_per_s, nothing.ttft_ms, nothing.itl_ms.p50) == (0, None, None, None)


def test_conditional_acceptance_counts_only_who_was_asked(tiny: DecodingEngine) -> None:
    run = tiny.decode("abcab", gamma=3, rule="token", temperature=1.0, max_new_tokens=200, seed=2)
    found = run.metrics
    product = 1.0
    for unconditional, conditional in zip(
        found.acceptance_rate_per_position, found.conditional_acceptance_per_position, strict=True
    ):
        product *= conditional
        assert unconditional == pytest.approx(product, abs=0.03)  # the last rounds are shorter


def test_reading_and_folding_a_trace_needs_no_torch(pair: DecodingEngine, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    files.write(path, pair.decode("hello", max_new_tokens=4).events)
    code = (
        "import sys, json; from draftscope.trace import files, metrics; "
        f"print(json.dumps([metrics.fold(files.read({str(path)!r}).events).tokens, 'torch' in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [4, False]
