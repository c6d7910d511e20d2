"""The loop: one forward a round, greedy identity, endings inside a block, batches, cancelling."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel

from draftscope import DraftscopeError
from draftscope.base import cores
from draftscope.base.steps import Together, last, said, stoppable
from draftscope.base.text import Ending, Transcript
from draftscope.decode.calibration import quick_curve
from draftscope.decode.engine import DecodingEngine, Run
from draftscope.decode.lane import Lane
from draftscope.decode.race import race, solo_runs, verify_costs
from draftscope.decode.session import Step
from draftscope.drafters import find
from draftscope.drafters.model.draft_model import DraftModel
from draftscope.drafters.settings import Settings
from draftscope.models.model import Model
from draftscope.models.probe import probed
from draftscope.trace.events import AnyEvent, Prefill, Round, RunEnd
from draftscope.trace.validate import validate
from tests.support.contracts import LARGER, examples
from tests.support.models import byte_tokenizer, random_heads

PROMPT = "The quick brown fox"
DRAFTERS = examples(LARGER, typed=" jumps over the lazy dog")
STAY = ("lookahead", "cascade", "ssd", "oracle", "typed")  # of a batch whatever has ended
LENGTHS = ("fixed", "cost", "confidence", "heuristic", "specdec++", "adaedl")


def decode(engine: DecodingEngine, drafter: str, **settings: object):
    return engine.decode(PROMPT, drafter, **{**DRAFTERS[drafter], "max_new_tokens": 24, **settings})


@pytest.fixture(scope="module")
def twin(pair: DecodingEngine) -> DecodingEngine:
    """The target drafts for itself, so that long blocks are accepted."""
    engine = DecodingEngine(pair.target, pair.target, pair.tokenizer, pair.heads)
    engine.calibration = pair.calibration
    return engine


@pytest.fixture(scope="module")
def twin_text(twin: DecodingEngine) -> list[int]:
    """What plain decoding writes, in tokens."""
    return decode(twin, "plain").token_ids


@pytest.fixture(scope="module")
def generated(pair: DecodingEngine) -> list[int]:
    """What transformers writes at temperature 0."""
    prompt = torch.tensor([pair.encode(PROMPT)])
    config = GenerationConfig(max_new_tokens=24, do_sample=False, eos_token_id=0, pad_token_id=1)
    written = pair.target.network.generate(prompt, attention_mask=torch.ones_like(prompt), generation_config=config)
    tokens: list[int] = written[0, prompt.shape[1] :].tolist()
    return tokens


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_run_is_transformers_greedy_text_takes_a_forward_a_round_and_does_not_depend_on_recording(
    pair: DecodingEngine, drafter: str, temperature: float, generated: list[int]
) -> None:
    with pair.target.counter.widths() as ran:
        run = decode(pair, drafter, temperature=temperature, seed=3)
    prefill, *widths = ran
    assert prefill == len(pair.encode(PROMPT)) - 1
    assert widths == [event.width for event in run.round_events]
    assert run.events[-1].target_forwards == len(widths)
    if temperature == 0.0:
        assert run.token_ids == generated
    off = decode(pair, drafter, temperature=temperature, seed=3, record=False)
    assert run.token_ids == off.token_ids
    assert not off.round_events


def test_a_draft_forward_for_each_level_and_no_more(pair: DecodingEngine) -> None:
    with pair.draft.counter.widths() as widths:
        run = decode(pair, "topk-tree", shape=(3, 2), max_new_tokens=3)
    assert widths[1:3] == [1, 3]  # the pending token, then three children; the leaves are never fed
    assert run.round_events[0].width == 1 + 3 + 6


def test_after_full_acceptance_the_draft_reads_two_tokens(twin: DecodingEngine) -> None:
    with twin.target.counter.widths() as widths:
        twin.decode(PROMPT, "draft", gamma=2, max_new_tokens=9)
    # target prefill, draft prefill, then per round: catch up, draft step, verify
    assert widths[2:5] == [1, 1, 3]
    assert widths[5:8] == [2, 1, 3]


def test_seeds_matter_and_repeat(pair: DecodingEngine) -> None:
    runs = [decode(pair, "draft", temperature=1.0, seed=seed).token_ids for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


@pytest.fixture(scope="module")
def ending(pair: DecodingEngine) -> DecodingEngine:
    """The pair with many ends of text, so that texts end unequally."""
    engine = DecodingEngine(pair.target, pair.draft, pair.tokenizer, pair.heads)
    engine.calibration, engine.eos = pair.calibration, frozenset(range(0, 258, 24))
    return engine


RAGGED = ("a", "hello there", "abcabcabcabcabc", "zz top")
COMMON = {"max_new_tokens": 20, "seed": 11}


def written_alone(engine: DecodingEngine, settings: Settings) -> list[list[int]]:
    """What each of `RAGGED` is continued with by itself."""
    sessions = [engine.start_batch([engine.encode(text)], settings, (b,)) for b, text in enumerate(RAGGED)]
    for session in sessions:
        last(session.steps())
    return [session.transcripts[0].tokens for session in sessions]


@pytest.fixture(scope="module")
def plain_alone(ending: DecodingEngine) -> list[list[int]]:
    """What every drafter writes at temperature 0."""
    return written_alone(ending, Settings.of(drafter="plain", **COMMON))


@pytest.mark.parametrize(
    ("temperature", "drafter", "length"),
    [(t, drafter, "fixed") for t in (0.0, 1.0) for drafter in DRAFTERS
     if drafter not in ("plain", "typed") and not (t and find(drafter).chooses_by)]
    + [(0.0 if length == "cost" else float(number % 2), drafter, length)
       for number, (drafter, length) in enumerate(product(("draft", "eagle3", "block"), LENGTHS[1:]))],
)  # fmt: skip
def test_a_ragged_batch_writes_what_each_sequence_writes_alone(
    ending: DecodingEngine, plain_alone: list[list[int]], temperature: float, drafter: str, length: str
) -> None:
    """Unequal prompts, unequal acceptance, unequal ends: and neither neighbours nor padding show in the tokens.

    By cost lengths depend on the batch, so at temperature 1 the distribution stays (`test_distribution.py`)
    and the tokens move.
    """
    more = {"temperature": temperature, "draft_length": length, **DRAFTERS[drafter]}
    settings = Settings.of(drafter=drafter, **COMMON, **more)
    together = ending.start_batch([ending.encode(text) for text in RAGGED], settings, (0, 1, 2, 3))
    steps = list(together.steps())
    assert_ended_leave(steps, drafter not in STAY)
    expected = written_alone(ending, settings) if temperature else plain_alone
    assert [transcript.tokens for transcript in together.transcripts] == expected
    for b, tokens in enumerate(expected):
        assert len(tokens) == sum(step.fed[step.rows.index(b)].count for step in steps if b in living(step))


def living(step: Step) -> list[int]:
    return [row for row, live in zip(step.rows, step.live, strict=True) if live]


def assert_ended_leave(steps: list[Step], leaves: bool) -> None:
    """Once a quarter of the batch has ended it goes on without; or it stays as it was, where that cannot be."""
    assert steps[0].rows == list(range(len(steps[0].fed)))
    for step, after in pairwise(steps):
        ended = [fed is None or fed.cut is not None for fed in step.fed]
        small = [row for row, done in zip(step.rows, ended, strict=True) if not done]
        assert after.rows == (small if leaves and sum(ended) >= max(1, len(step.rows) / 4) else step.rows)


def test_stopped_sequences_keep_their_text_and_leave_the_others_alone(pair: DecodingEngine) -> None:
    prompts = [pair.encode(f"{PROMPT} {i}") for i in range(3)]
    settings = Settings.of(drafter="draft", gamma=2, max_new_tokens=24)
    whole, cut = (pair.start_batch(prompts, settings, (0, 1, 2), ends=False) for _ in range(2))
    last(whole.steps())
    for step in cut.steps():
        if step.index == 1:
            cut.stop({1})
            kept = list(cut.transcripts[1].tokens)
    assert cut.transcripts[1].tokens == kept and len(kept) < 24
    for row in (0, 2):
        assert cut.transcripts[row].tokens == whole.transcripts[row].tokens


def test_a_batch_grows_smaller_and_so_do_its_caches(pair: DecodingEngine) -> None:
    settings = Settings.of(drafter="draft", gamma=3, temperature=1.0, max_new_tokens=24, seed=4)
    session = pair.start_batch([pair.encode(PROMPT)] * 8, settings, tuple(range(8)), ends=False)
    steps, sizes = [], []
    for step in session.steps():
        assert isinstance(session.drafter, DraftModel)
        steps.append(step)
        sizes.append(len(step.rows))
        held = {len(cache.table.length) for cache in (session._cache, session.drafter._cache)}
        held |= {layer.keys.shape[0] for cache in (session._cache, session.drafter._cache) for layer in cache.layers}
        assert len(held) == 1
        assert all(tensor.shape[0] == sizes[-1] for tensor in (step.logits, step.tree.tokens, step.verification.path))
    assert_ended_leave(steps, leaves=True)
    assert any(sum(step.live) < len(step.live) for step in steps)  # one alone waits for more to end
    assert sizes[0] == 8 and sizes[-1] < 3


@pytest.mark.parametrize("drafter", ["draft", "topk-tree"])
def test_eos_inside_a_block_ends_the_text(twin: DecodingEngine, drafter: str) -> None:
    written = decode(twin, drafter).token_ids
    eos = written[5]
    first = written.index(eos)
    ends = DecodingEngine(twin.target, twin.target, twin.tokenizer)
    ends.eos = frozenset({0, eos})
    run = decode(ends, drafter)
    assert run.token_ids == written[: first + 1]
    assert run.events[-1].reason == "eos"
    assert run.round_events[-1].cut == "eos"


def test_a_stop_string_inside_a_block_cuts_right_behind_it(twin: DecodingEngine) -> None:
    free = decode(twin, "draft")
    stop = free.text[7:9]
    run = decode(twin, "draft", stop=(stop,))
    assert run.text == free.text[: free.text.index(stop) + len(stop)]
    assert run.events[-1].reason == "stop"


class Words:
    """Tokens of several characters, so that a stop string may end inside one."""

    words = (b"Once ", b"upon a", b" time", b" END here")

    def is_special(self, token: int) -> bool:
        return False

    def raw(self, token: int) -> bytes:
        return self.words[token]


@pytest.mark.parametrize(
    ("stop", "text", "tokens"),
    [(("pon",), "Once upon", 2), (("a ti", "END"), "Once upon a ti", 3), (("END", "D h"), "Once upon a time END", 4)],
)
def test_a_stop_string_inside_a_token_cuts_the_token(stop: tuple[str, ...], text: str, tokens: int) -> None:
    written = Transcript(Words(), Ending(frozenset(), stop, 100))
    fed = written.add([0, 1, 2, 3])
    assert (written.text, fed.count, fed.cut) == (text, tokens, "stop")
    assert fed.delta == text


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_a_limit_inside_a_block_is_met_exactly(
    twin: DecodingEngine, twin_text: list[int], drafter: str, limit: int
) -> None:
    run = decode(twin, drafter, max_new_tokens=limit)
    assert len(run.token_ids) == limit
    assert run.token_ids == twin_text[:limit]
    assert "".join(event.text_delta for event in run.round_events) == run.text


def test_a_typed_continuation_sticks_as_far_as_the_target_agrees(pair: DecodingEngine) -> None:
    plain = pair.decode("a", "plain", max_new_tokens=8)
    typed = plain.text[:2] + "~~"
    ids = pair.tokenizer(typed, add_special_tokens=False)["input_ids"]
    agreed = next(i for i, token in enumerate(ids) if token != plain.token_ids[i])
    assert agreed > 0
    run = pair.decode("a", "typed", typed=typed, max_new_tokens=8)
    assert (run.round_events[0].drafted, run.round_events[0].accepted) == (min(len(ids), 7), agreed)
    assert [event.drafted for event in run.round_events[1:]] == [0] * (len(run.round_events) - 1)


def test_ngram_copies_the_latest_longest_match(pair: DecodingEngine) -> None:
    rounds = pair.decode("abcX abcY abc", "ngram", gamma=2, ngram=3, max_new_tokens=4).round_events
    assert [node.raw for node in rounds[0].nodes] == ["Y", " "]
    assert rounds[0].nodes[0].origin == "3-gram, seen at token 8"


@pytest.mark.parametrize("name", ["plain", "draft", "sampled-tree"])
def test_closing_the_stream_stops_decoding(pair: DecodingEngine, name: str) -> None:
    before = pair.target.counter.forwards
    stream = pair.rounds(PROMPT, name, max_new_tokens=200)
    next(stream)
    stream.close()
    assert pair.target.counter.forwards - before == 2  # the prefill and one round


def lanes(engine: DecodingEngine, **settings: object) -> list[Run]:
    both = {"plain": Settings.of(drafter="plain", **settings), "draft": Settings.of(drafter="draft", **settings)}
    return [engine.start(PROMPT, one, run="r", lane=lane) for lane, one in both.items()]


def test_the_race_advances_the_lane_that_is_behind(pair: DecodingEngine) -> None:
    clocks = {"plain": 0.0, "draft": 0.0}
    for event in race(lanes(pair, max_new_tokens=24)):
        if isinstance(event, Prefill):
            clocks[event.lane] = event.end
        if isinstance(event, Round):
            assert event.start <= min(clocks[lane] for lane in clocks if lane != event.lane)
            clocks[event.lane] = event.end
        if isinstance(event, RunEnd):
            clocks[event.lane] = float("inf")
    assert set(clocks.values()) == {float("inf")}


def test_a_cancelled_race_ends_every_lane(pair: DecodingEngine) -> None:
    seen: list[object] = []
    for event in stoppable(race(lanes(pair, max_new_tokens=200)), lambda: len(seen) > 9):
        seen.append(event)
    ends = [event for event in seen if isinstance(event, RunEnd)]
    assert [(event.lane, event.reason) for event in ends] == [("plain", "cancelled"), ("draft", "cancelled")]


def test_a_long_prompt_is_told_in_parts_and_can_be_stopped_between_them(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pair.decode(PROMPT, drafter="draft", max_new_tokens=8)
    monkeypatch.setattr(Model, "_read_at_once", lambda self, longest: 8)
    parts = pair.decode(PROMPT, drafter="draft", max_new_tokens=8)
    read = [event.tokens for event in parts.events if isinstance(event, Prefill)]
    assert read == [*range(8, len(PROMPT) - 1, 8), len(PROMPT) - 1]
    assert parts.token_ids == whole.token_ids
    ends = [event.end for event in parts.events if isinstance(event, Prefill)]
    assert ends == sorted(ends) and parts.metrics.stage_ms and parts.round_events[0].start == ends[-1]
    seen: list[AnyEvent] = []
    for event in stoppable(race(lanes(pair)), lambda: len(seen) > 3):
        seen.append(event)
    assert not any(isinstance(event, Round) for event in seen)
    assert [event.reason for event in seen if isinstance(event, RunEnd)] == ["cancelled", "cancelled"]
    validate([*parts.events, *seen])


def test_solo_runs_alternate_and_can_be_cancelled(pair: DecodingEngine) -> None:
    settings = {"plain": Settings.of(drafter="plain", max_new_tokens=8), "draft": Settings.of(max_new_tokens=8)}
    both = {name: Lane.of(pair, one) for name, one in settings.items()}
    events = list(said(solo_runs(pair, PROMPT, both, repeats=2)))
    assert [(event.lane, len(event.seconds)) for event in events] == [
        ("plain", 1),
        ("draft", 1),
        ("plain", 2),
        ("draft", 2),
    ]
    assert [len(event.other_cores) for event in events] == [1, 1, 2, 2]
    assert not list(stoppable(solo_runs(pair, PROMPT, both), lambda: True))


def test_the_work_of_other_processes_is_counted_and_the_own_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 3 s of all processes' work in 2 s, this one did 1."""
    Every, Own = namedtuple("Every", "user system idle guest"), namedtuple("Own", "user system")
    every, own, clock = [Every(5.0, 1.0, 9.0, 2.0)], [Own(1.0, 0.5)], [10.0]
    monkeypatch.setattr(cores.psutil, "cpu_times", lambda: every[-1])
    monkeypatch.setattr(cores.psutil, "Process", lambda: SimpleNamespace(cpu_times=lambda: own[-1]))
    monkeypatch.setattr(cores, "perf_counter", lambda: clock[-1])
    others = cores.OtherCores()
    every.append(Every(7.5, 1.5, 99.0, 4.0))
    own.append(Own(2.0, 0.5))
    clock.append(12.0)
    assert others.lap() == 1.0


def test_v_by_rows_belongs_to_the_drafting_lane_and_can_be_cancelled(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path))
    monkeypatch.setattr(pair, "_curve", Together(lambda: quick_curve(pair)))
    both = {"plain": Lane.of(pair, Settings.of(drafter="plain")), "fast": Lane.of(pair, Settings.of())}
    assert not list(stoppable(verify_costs(pair, both), lambda: True))
    assert not list(verify_costs(pair, {"plain": both["plain"]}))
    (event,) = said(verify_costs(pair, both, "r"))
    assert (event.run, event.lane) == ("r", "fast")
    assert event.v[0] == 1 and event.v == sorted(event.v) and len(event.v) == len(event.widths) == len(event.noise)
    assert list(said(verify_costs(pair, both, "r"))) == [event]  # not measured again


@hypothesis_settings(max_examples=25, deadline=None)
@given(
    drafter=st.sampled_from(sorted(DRAFTERS)),
    gamma=st.integers(1, 6),
    shape=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    limit=st.integers(1, 20),
    prompt=st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).filter(str.strip),
    length=st.sampled_from(LENGTHS),
)
def test_any_setting_writes_plains_greedy_tokens(
    pair: DecodingEngine, drafter: str, gamma: int, shape: list[int], limit: int, prompt: str, length: str
) -> None:
    want = pair.decode(prompt, "plain", max_new_tokens=limit).token_ids
    run = pair.decode(
        prompt, drafter, gamma=gamma, shape=shape, max_new_tokens=limit, typed=prompt, draft_length=length
    )
    assert run.token_ids == want


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"drafter": "drat"}, "There is no drafter 'drat'; did you mean 'draft'?"),
        ({"gamma": 0}, "gamma = 0: should be greater than or equal to 1."),
        ({"shape": (64, 64)}, "makes 4160 nodes; keep a tree to 256"),
        ({"temperature": -1}, "temperature = -1: should be greater than or equal to 0."),
        ({"colour": 1}, "There is no setting 'colour'"),
        ({"stop": ("",)}, "holds an empty string"),
        ({"max_new_tokens": 600}, "the target's context holds 512; ask for at most 493 new tokens"),
    ],
)
def test_bad_settings_are_one_sentence(pair: DecodingEngine, settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(DraftscopeError) as error:
        pair.decode(PROMPT, **settings)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("prompt", "sentence"),
    [
        ("", "The prompt is empty"),
        ("x" * 600, "shorten it"),
        ("x" * 99_999, "shorten it"),
    ],
)
def test_bad_prompts_are_one_sentence(pair: DecodingEngine, prompt: str, sentence: str) -> None:
    with pytest.raises(DraftscopeError, match=sentence):
        pair.decode(prompt)


def test_a_target_alone_says_what_needs_a_draft(pair: DecodingEngine) -> None:
    alone = DecodingEngine(pair.target, None, pair.tokenizer)
    assert {info.name for info in alone.drafters() if info.available} == {
        "plain",
        "ngram",
        "suffix",
        "suffix-tree",
        "lookahead",
        "early-exit",
        "oracle",
        "typed",
    }
    with pytest.raises(DraftscopeError, match="needs a draft model; name one with --draft"):
        alone.decode(PROMPT, "draft")


def test_a_drafter_that_proposes_more_than_it_announced_is_refused(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from draftscope import drafters

    shy = replace(drafters.find("draft"), nodes=lambda _: 1)
    monkeypatch.setattr(drafters, "find", lambda _: shy)
    with pytest.raises(ValueError, match="proposed 4 nodes, more than the 1"):
        pair.decode(PROMPT, gamma=4)


def test_a_tree_may_reach_beyond_the_context_where_the_text_ends() -> None:
    """Learned positions end with the context: rows that could not be emitted anyway must not be looked up behind it."""
    torch.manual_seed(0)
    shape = {"vocab_size": 258, "n_positions": 24, "n_embd": 32, "n_layer": 2, "n_head": 4}
    target = probed(GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=0, eos_token_id=0)), "learned positions")
    engine = DecodingEngine(target, None, byte_tokenizer(), random_heads(target, (2, 3, 4, 5)))
    want = engine.decode("abcdefgh", "plain", max_new_tokens=16).token_ids
    assert engine.decode("abcdefgh", "eagle-tree", max_new_tokens=16, tree_width=1, tree_depth=6).token_ids == want
