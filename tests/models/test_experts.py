"""Experts touched: the trace reports what the routers chose, for verify forwards only, and only for recorded runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from draftscope.decode.engine import DecodingEngine
from draftscope.decode.race import race
from draftscope.drafters.settings import Settings
from draftscope.models.forward.experts import Watch, watch
from draftscope.models.model import Model
from draftscope.models.probe import probed
from draftscope.trace import files
from draftscope.trace.events import EVENT, Experts
from tests.support.architectures import CASES, network
from tests.support.models import letters

CASE = {case.name: case for case in CASES}
REPORTED = ["Mixtral", "Qwen2-MoE", "Qwen3-MoE", "GPT-OSS", "DeepSeek-V3"]
PROMPT = "abcdefghij"


def lab_of(name: str, draft: str = "Llama, SmolLM2") -> DecodingEngine:
    engine = DecodingEngine(
        probed(network(CASE[name], 1), "target"), probed(network(CASE[draft], 2), "draft"), letters(48)
    )
    engine.eos = frozenset()
    return engine


def notes_of(run: Any) -> list[Experts | None]:
    found = [[note for note in event.annotations if isinstance(note, Experts)] for event in run.round_events]
    return [notes[0] if notes else None for notes in found]


def routed(engine: DecodingEngine, text: list[int], rows: int) -> list[list[set[int]]]:
    """For each layer with experts, the experts of each of the last `rows` tokens, from a forward without a cache."""
    chosen: list[list[set[int]]] = []

    def record(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        index = next(each for each in (*args, *kwargs.values()) if not each.is_floating_point())
        chosen.append([set(row.tolist()) for row in index.flatten(0, -2)[-rows:]])

    modules = [each for each in engine.target.network.modules() if type(each).__name__.endswith("Experts")]
    handles = [module.register_forward_pre_hook(record, with_kwargs=True) for module in modules]
    with torch.inference_mode():
        engine.target.network(input_ids=torch.tensor([text]), use_cache=False)
    for handle in handles:
        handle.remove()
    return chosen


@pytest.mark.parametrize("name", REPORTED)
def test_the_trace_counts_what_the_routers_chose(name: str) -> None:
    """The rows of a chain are a text: in a forward without a cache, its tokens are routed to the same experts."""
    engine = lab_of(name)
    run = engine.decode(PROMPT, "draft", gamma=3, max_new_tokens=16)
    text = engine.encode(PROMPT)
    for event, note in zip(run.round_events, notes_of(run), strict=True):
        assert note is not None
        rows = [text[-1], *(node.token for node in event.nodes)]
        expected = routed(engine, [*text[:-1], *rows], len(rows))
        assert note.touched == [len(set.union(*layer)) for layer in expected]
        assert note.active == len(expected[0][0])
        assert note.rows == event.width == len(rows)
        assert note.active <= max(note.touched) <= note.of
        text += event.emitted
    assert [EVENT.validate_json(files.line(event)) for event in run.events] == list(run.events)


def test_more_rows_touch_more_experts() -> None:
    engine = lab_of("Qwen3-MoE")
    plain = notes_of(engine.decode(PROMPT, "plain", max_new_tokens=20))
    tree = notes_of(engine.decode(PROMPT, "topk-tree", shape=(3, 2, 1), max_new_tokens=20))
    assert {tuple(note.touched) for note in plain if note} == {(2, 2)}
    assert max(sum(note.touched) for note in tree if note) > 4


def test_drafting_with_the_targets_first_layers_is_not_counted() -> None:
    engine = lab_of("Mixtral")
    run = engine.decode(PROMPT, "early-exit", gamma=3, exit_layer=1, max_new_tokens=12)
    assert {len(note.touched) for note in notes_of(run) if note} == {2}
    assert [note.rows for note in notes_of(run) if note] == [event.width for event in run.round_events]


def test_lanes_of_one_target_count_only_their_own_forwards() -> None:
    engine = lab_of("Mixtral")
    by_lane = {name: Settings.of(drafter=name, max_new_tokens=12) for name in ("plain", "draft")}
    events = list(race([engine.start(PROMPT, settings, lane=name) for name, settings in by_lane.items()]))
    rounds = [event for event in events if event.kind == "round"]
    assert {event.lane for event in rounds} == {"plain", "draft"}
    for event in rounds:
        (note,) = (each for each in event.annotations if isinstance(each, Experts))
        assert note.rows == event.width


def hooks(model: Model) -> int:
    return sum(len(module._forward_pre_hooks) for module in model.network.modules())


def test_hooks_exist_only_during_recorded_runs() -> None:
    engine = lab_of("Mixtral")
    counts: list[int] = []
    settings = Settings.of(drafter="draft", max_new_tokens=12)
    silent = engine.start(PROMPT, settings, record=False).events()
    recorded = engine.start(PROMPT, settings).events()
    for events in (silent, recorded):
        for _, event in zip(range(4), events, strict=False):
            counts.append(hooks(engine.target))
            assert event is not None
        events.close()  # type: ignore[attr-defined]
    assert max(counts) == 2
    assert counts[: len(counts) // 2].count(0) == len(counts) // 2
    assert hooks(engine.target) == 0
    on = engine.decode(PROMPT, "draft", temperature=1.0, max_new_tokens=20, seed=3)
    off = engine.decode(PROMPT, "draft", temperature=1.0, max_new_tokens=20, seed=3, record=False)
    assert on.token_ids == off.token_ids
    assert hooks(engine.target) == 0


def test_counting_choices_instead_of_experts_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutation: an expert that two rows use is counted twice."""
    original = Watch.note

    def twice(self: Watch) -> Experts | None:
        note = original(self)
        return note.model_copy(update={"touched": [each.numel() for each in self._chosen]}) if note else None

    monkeypatch.setattr(Watch, "note", twice)
    with pytest.raises(AssertionError):
        test_the_trace_counts_what_the_routers_chose("Mixtral")


def test_dense_targets_and_those_that_compute_all_experts_report_none(pair: DecodingEngine) -> None:
    assert watch(pair.target.network) is None
    assert notes_of(pair.decode(PROMPT, "draft", max_new_tokens=6)) == [None] * len(
        pair.decode(PROMPT, "draft", max_new_tokens=6).round_events
    )
    assert set(notes_of(lab_of("Llama 4, text").decode(PROMPT, "plain", max_new_tokens=4))) == {None}
