"""Head kinds are read from one entry each: a made-up one, given from one file, is in every list and works in each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from draftscope.base.errors import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.lane import Lane
from draftscope.decode.load import _head
from draftscope.decode.prompt import EncodedPrompt
from draftscope.decode.start import run_start
from draftscope.drafters import adopt, find
from draftscope.drafters import registry as drafter_registry
from draftscope.drafters.options import ShapeOptions
from draftscope.drafters.registry import chain_of, known_heads, trained_kinds
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.measure.bench.systems import drafter_systems
from draftscope.models import head_kinds
from draftscope.models.heads import SharedWeights, kind_of, save_head
from tests.support import contracts, made_up_heads, mutations
from tests.support.models import first_head


@pytest.fixture(autouse=True)
def given(own_drafters: None) -> None:
    """The made-up drafters are given, one as its file."""
    assert adopt(f"{made_up_heads.__file__}:INFO") == "glimpse"
    assert adopt(made_up_heads.WIDE) == "wide-glimpse"


@pytest.fixture
def engine(tiny: DecodingEngine, tmp_path: Path) -> DecodingEngine:
    """The tiny pair with such a head, which was saved and is loaded as the command line loads it."""
    torch.manual_seed(1)
    head = first_head("glimpse", tiny.target)
    for weight in head.parameters():
        weight.data.add_(torch.randn_like(weight) * 0.2)
    save_head(head, tmp_path, "tiny-target")
    for drafter in ("glimpse", "wide-glimpse"):  # whose name stands for the head that it needs
        kind, named = _head(f"{drafter}:{tmp_path}", tiny.target)
        assert kind == kind_of(named.network) == "glimpse"
    made = DecodingEngine(tiny.target, tiny.draft, tiny.tokenizer, dict(tiny.heads) | {kind: named})
    made.eos, made.calibration = frozenset(), tiny.calibration
    return made


def test_it_is_in_every_list(tiny: DecodingEngine) -> None:
    assert "glimpse" in known_heads() and "glimpse" in trained_kinds()
    assert {"glimpse"} <= set(contracts.examples(contracts.SMALL)) & set(contracts.chains())
    lane = Lane(Settings.of(drafter="glimpse", gamma=3), replace(find("glimpse"), head=None))
    assert run_start(tiny, lane, EncodedPrompt("a", "", [1]), "r", "r").sized_by == "gamma"


def test_a_benchmark_gives_it_its_tree(engine: DecodingEngine) -> None:
    adopt(replace(made_up_heads.WIDE, options=ShapeOptions, bench_shape=(2, 1)))
    systems, _ = drafter_systems(engine, BenchPlan(drafters=("wide-glimpse",)))
    assert [system.label.shape for system in systems] == [None, (2, 1)]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_it_decodes_what_the_target_says(engine: DecodingEngine, temperature: float) -> None:
    run = engine.decode("abcab", "glimpse", gamma=3, max_new_tokens=24, temperature=temperature, seed=3)
    assert any(event.depth == 3 for event in run.round_events)
    if temperature == 0:
        assert run.token_ids == engine.decode("abcab", "plain", max_new_tokens=24).token_ids


def test_a_taken_or_unknown_name_is_refused() -> None:
    with pytest.raises(DraftscopeError, match="'mtp' has the name of a built-in one"):
        adopt(replace(made_up_heads.INFO, name="other", head=replace(made_up_heads.HEAD, name="mtp")))
    with pytest.raises(DraftscopeError, match=r"'glimps'; choose from eagle3, .*, glimpse, speculators"):
        head_kinds.find("glimps")


@pytest.mark.parametrize("kind", head_kinds.KINDS, ids=lambda kind: kind.name)
def test_every_kind_is_whole(kind: head_kinds.HeadKind, tiny: DecodingEngine) -> None:
    """What one list needs is there wherever another promises it: a drafter, a network."""
    assert find(kind.name).head is kind
    head = first_head(kind.name, tiny.target)
    assert isinstance(head, kind.network().head)
    assert head.shared.vocabulary == SharedWeights.of(tiny.target.network).vocabulary


def test_a_tree_is_named_after_its_chain() -> None:
    """By name only is known which chain a row of results belongs to."""
    for info in map(find, drafter_registry.BUILT_IN):
        of_trees = info.needs_head or ("draft" if info.needs_draft else info.name.removesuffix("-tree"))
        assert chain_of(info.name) == (of_trees if info.grows_trees else info.name)
        assert not info.grows_trees or info.costs_like == of_trees


def test_trees_that_draw_are_those_that_the_mutations_break(engine: DecodingEngine) -> None:
    drawn = set()
    for name in contracts.trees():
        options = contracts.example(find(name), contracts.SMALL)
        run = engine.decode("abcab", name, temperature=1.0, seed=1, max_new_tokens=12, **options)
        rules = {decision.rule for event in run.round_events for decision in event.decisions}
        if "rrsw" in rules:
            drawn.add(name)
    assert drawn == set(mutations.DRAWN_TREES)
