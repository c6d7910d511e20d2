"""Forks: exact tokens before a lane's own, in the engine, in the trace and through the engine process."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.fork import ForkPoint
from draftscope.decode.race import race
from draftscope.drafters.settings import Settings
from draftscope.trace import files
from draftscope.trace.events import AnyEvent, Prefill, Round, RunEnd, RunStart
from draftscope.trace.result import Result
from draftscope_app.engine.run_job import RunJob
from draftscope_app.page.runs import forks
from draftscope_app.page.runs.forks import ForkRequest
from draftscope_app.reports.run_report import decoded, given_text

PROMPT = "abc"


def forked(engine: DecodingEngine, fork_point: ForkPoint, **settings: object) -> list[AnyEvent]:
    chosen = Settings.of(**({"max_new_tokens": 12} | settings))
    return list(engine.start(PROMPT, chosen, lane="fork", fork_point=fork_point).events())


def end_of(events: list[AnyEvent]) -> RunEnd:
    assert isinstance(events[-1], RunEnd)
    return events[-1]


@pytest.mark.parametrize("drafter", ["plain", "draft", "topk-tree", "ngram"])
def test_a_greedy_fork_without_a_forced_token_goes_on_as_the_lane_did(pair: DecodingEngine, drafter: str) -> None:
    """The target's best token after a prefix does not depend on how the prefix came to stand there."""
    whole = pair.decode(PROMPT, "plain", max_new_tokens=20).token_ids
    events = forked(pair, ForkPoint("plain", 8, tuple(whole[:8])), drafter=drafter)
    assert end_of(events).token_ids == whole[8:]


def test_a_fork_starts_from_token_ids_and_not_from_their_text(pair: DecodingEngine) -> None:
    """Bytes that are no text: read again as text they would be other tokens."""
    odd = [pair.encode("é")[0], pair.encode("é")[0]]
    forced = tuple(odd)
    events = forked(pair, ForkPoint("plain", 2, forced, forced=True), drafter="plain", max_new_tokens=4)
    start, prefill = events[0], events[1]
    assert isinstance(start, RunStart) and isinstance(prefill, Prefill) and start.fork is not None
    assert start.fork.token_ids == odd
    assert start.fork.raw == [pair.pieces.shown(token) for token in odd]
    assert start.prompt == PROMPT
    assert start.prompt_tokens == len(pair.encode(PROMPT)) + 2 == prefill.tokens + 1
    assert start.prompt_last_raw == start.fork.raw[-1]
    own = pair.start_batch([pair.encode(PROMPT) + odd], Settings.of(drafter="plain", max_new_tokens=4), (0,))
    for _ in own.steps():
        pass
    assert end_of(events).token_ids == own.transcripts[0].tokens


def test_a_character_that_the_fork_cuts_is_ended_by_its_first_token(pair: DecodingEngine) -> None:
    first, second = pair.encode("é")
    run = pair.start(PROMPT, Settings.of(drafter="plain", max_new_tokens=2), fork_point=ForkPoint("plain", 0, (first,)))
    transcript = run._session.transcripts[0]
    assert transcript.add([second]).delta == "é"


def test_another_seed_draws_other_tokens_and_the_same_seed_the_same(pair: DecodingEngine) -> None:
    prefix = tuple(pair.decode(PROMPT, "plain", max_new_tokens=6).token_ids)
    texts = [
        end_of(forked(pair, ForkPoint("speculative", 3, prefix), temperature=1.0, seed=seed)).token_ids
        for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]


def test_forked_tokens_are_no_tokens_of_the_lane(pair: DecodingEngine) -> None:
    events = forked(pair, ForkPoint("plain", 2, (70, 71, 72), forced=True), temperature=1.0)
    emitted = [token for event in events if isinstance(event, Round) for token in event.emitted]
    assert emitted == end_of(events).token_ids
    assert len(emitted) == 12


@pytest.mark.parametrize(
    ("fork_point", "words"),
    [
        (ForkPoint("plain", 0, (), forced=True), "names no token"),
        (ForkPoint("plain", 0, (99_999,)), "token = 99999: the target knows 0 to 257"),
        (ForkPoint("plain", 0, (-1,)), "token = -1"),
        (ForkPoint("plain", 0, (0,), forced=True), "token = 0 ends the text"),
        (ForkPoint("plain", 0, (70,) * 600), "context holds 512"),
    ],
)
def test_a_fork_that_cannot_be_is_one_sentence(pair: DecodingEngine, fork_point: ForkPoint, words: str) -> None:
    with pytest.raises(DraftscopeError, match=words):
        pair.start(PROMPT, Settings.of(max_new_tokens=8), fork_point=fork_point)


def test_a_trace_with_a_fork_is_read_as_it_was_written(pair: DecodingEngine, tmp_path: Path) -> None:
    events = list(pair.decode(PROMPT, max_new_tokens=8).events)
    events += forked(pair, ForkPoint("run", 1, tuple(events[-1].token_ids[:3])))
    files.write(tmp_path / "forked.jsonl.gz", events)
    read = files.read(tmp_path / "forked.jsonl.gz")
    assert not read.warning
    assert list(read.events) == events


def test_a_replayed_fork_shows_what_was_given_to_it(pair: DecodingEngine) -> None:
    first, second = pair.encode("é")
    events = forked(pair, ForkPoint("plain", 2, (*pair.encode("xy"), first, second), forced=True))
    run = Result(tuple(events))
    assert given_text(run) == "xyé"
    assert decoded(run).token_ids == end_of(events).token_ids


# What the page asks for.


def asked(events: list[AnyEvent], **changes: object) -> RunJob:
    words = {"lane": "speculative", "round": 2, "slot": 0, "token": 80} | changes
    return forks.job(ForkRequest.of(words), events)


@pytest.fixture(scope="module")
def raced(pair: DecodingEngine) -> list[AnyEvent]:
    lanes = {"plain": {"drafter": "plain"}, "speculative": {"drafter": "sampled-tree", "shape": (2, 2)}}
    runs = [
        pair.start(PROMPT, Settings.of(temperature=1.0, max_new_tokens=30, seed=5, **own), run="r8", lane=lane)
        for lane, own in lanes.items()
    ]
    return list(race(runs))


def test_a_fork_is_the_lanes_own_run_with_another_seed_and_what_is_left(raced: list[AnyEvent]) -> None:
    rounds = [event for event in raced if isinstance(event, Round) and event.lane == "speculative"]
    before = [token for event in rounds[:2] for token in event.emitted]
    job = asked(raced)
    ((name, values),) = job.lanes.items()
    assert job.fork_point == ForkPoint("speculative", 2, (*before, rounds[2].nodes[0].token, 80), forced=True, run="r8")
    assert (name, job.prompt) == ("fork 1", PROMPT)
    assert (values.drafter, values.model_dump()["shape"], values.seed) == ("sampled-tree", (2, 2), 7)
    assert values.max_new_tokens == 30 - len(before) - 2
    assert asked(raced, slot=-1, token=None).fork_point == ForkPoint("speculative", 2, tuple(before), run="r8")


def test_a_fork_of_a_fork_begins_with_what_the_first_was_given(pair: DecodingEngine, raced: list[AnyEvent]) -> None:
    job = asked(raced, slot=-1)
    ((name, values),) = job.lanes.items()
    first = pair.start(job.prompt, values, run="r8", lane=name, fork_point=job.fork_point)
    both = raced + list(first.events())
    second = asked(both, lane="fork 1", round=0, slot=-1, token=90)
    assert second.fork_point is not None and job.fork_point is not None
    assert second.fork_point.token_ids == (*job.fork_point.token_ids, 90)
    assert list(second.lanes) == ["fork 2"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lane": "x"}, "no lane 'x'"),
        ({"round": 99}, "Round 100 of 'speculative' has no such place"),
        ({"slot": 99}, "no such place"),
        ({"slot": "0"}, "cannot be read"),
        ({"token": True}, "cannot be read"),
    ],
)
def test_what_cannot_be_forked_is_one_sentence(raced: list[AnyEvent], changes: dict[str, object], words: str) -> None:
    with pytest.raises(DraftscopeError, match=words):
        asked(raced, **changes)
    with pytest.raises(DraftscopeError, match="cannot be read"):
        ForkRequest.of("not an object")


def test_the_end_of_a_text_and_four_lanes_cannot_be_forked(pair: DecodingEngine, raced: list[AnyEvent]) -> None:
    last = max(event.round for event in raced if isinstance(event, Round) and event.lane == "plain")
    with pytest.raises(DraftscopeError, match="Nothing is left"):
        asked(raced, lane="plain", round=last, slot=-1)
    more = [event.model_copy(update={"lane": f"{event.lane} {n}"}) for n in (1, 2) for event in raced]
    with pytest.raises(DraftscopeError, match="4 lanes are shown"):
        asked(raced + more)
