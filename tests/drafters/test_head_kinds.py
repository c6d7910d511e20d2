"""Head kinds are read from one entry each: a made-up one, given from one file, is in every list and works in each."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import reload
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from draftscope.advise import servers as advised
from draftscope.advise.candidates import Candidate
from draftscope.base.errors import DraftscopeError
from draftscope.claims.claim import ClaimVerdict
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.lane import Lane
from draftscope.decode.load import _head
from draftscope.decode.prompt import EncodedPrompt
from draftscope.decode.start import run_start
from draftscope.drafters import adopt, find
from draftscope.drafters import registry as drafter_registry
from draftscope.drafters.model.draft_model import CHAIN
from draftscope.drafters.options import ShapeOptions
from draftscope.drafters.registry import chain_of, known_heads, trained_kinds
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.measure.bench.systems import drafter_systems
from draftscope.models import head_kinds
from draftscope.models.heads import SharedWeights, kind_of, save_head
from draftscope.models.heads.head_files import read
from draftscope.models.heads.inspected import inspect, kind_of_files
from draftscope.models.heads.lessons import Blocks
from draftscope.servers.programs import program_list
from draftscope.servers.programs.program import ServedPair
from draftscope.train.publish.card import _method
from draftscope.train.students.recipes import CPU
from draftscope.train.students.shapes import ROPE
from draftscope.train.students.students import lesson_for, new_head
from draftscope_app.cli.main import main
from draftscope_app.doors.learn.classroom.verifier import EngineVerifier
from draftscope_app.lab.train_drafter import command as train_drafter
from tests.doors.decide.claims.test_claims import judged, row
from tests.drafters import made_up
from tests.support import contracts, mutations


@pytest.fixture(autouse=True)
def given(own_drafters: None) -> None:
    """The made-up drafters are given, one as its file."""
    assert adopt(f"{made_up.__file__}:INFO") == "glimpse"
    assert adopt(made_up.WIDE) == "wide-glimpse"


@pytest.fixture
def engine(tiny: DecodingEngine, tmp_path: Path) -> DecodingEngine:
    """The tiny pair with such a head, which was saved and is loaded as the command line loads it."""
    torch.manual_seed(1)
    head = new_head("glimpse", tiny.target.network, torch.arange(2), ROPE)
    for weight in head.parameters():
        weight.data.add_(torch.randn_like(weight) * 0.2)
    save_head(head, tmp_path, "tiny-target")
    for drafter in ("glimpse", "wide-glimpse"):  # whose name stands for the head that it needs
        kind, named = _head(f"{drafter}:{tmp_path}", tiny.target)
        assert kind == kind_of(named.network) == "glimpse"
    made = DecodingEngine(tiny.target, tiny.draft, tiny.tokenizer, dict(tiny.heads) | {kind: named})
    made.eos, made.calibration = frozenset(), tiny.calibration
    return made


def test_it_is_in_every_list(capsys: pytest.CaptureFixture[str], tiny: DecodingEngine) -> None:
    assert "glimpse" in known_heads() and "glimpse" in trained_kinds()
    reload(train_drafter)
    assert main(["train-drafter", "--help"]) == 0
    assert "glimpse" in capsys.readouterr().out
    for candidate in (Candidate("glimpse", 3), Candidate("wide-glimpse")):
        settings = {ready.engine: ready.settings for ready in advised.ready(candidate, [])}
        assert '"method": "glimpse"' in settings["vLLM"] and "GLIMPSE" in settings["SGLang"]
        assert settings["llama.cpp"] == ""
    assert main(["servers", "small", "--program", "vllm", "--method", "glimpse", "--drafter", "mine"]) == 0
    assert '"method": "glimpse", "num_speculative_tokens": 4, "model": "mine"' in capsys.readouterr().out
    assert _method("glimpse").format(depths=4) == "A glimpse of 4 tokens."
    assert CPU.answers.recipe("glimpse").rates == head_kinds.EAGLE3.rates
    assert {"glimpse"} <= set(contracts.examples(contracts.SMALL)) & set(contracts.chains())
    lane = Lane(Settings.of(drafter="glimpse", gamma=3), replace(find("glimpse"), head=None))
    assert run_start(tiny, lane, EncodedPrompt("a", "", [1]), "r", "r").sized_by == "gamma"


def test_its_files_are_known_and_checked(engine: DecodingEngine, tmp_path: Path) -> None:
    shared = SharedWeights.of(engine.target.network)
    assert inspect("glimpse", tmp_path, shared) == []
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"architectures": [], "blurred": True}))
    assert kind_of_files(read(tmp_path)) == "glimpse"
    assert [defect.name for defect in inspect("glimpse", tmp_path, shared)] == ["blurred"]


def test_a_class_competes_with_it_and_a_benchmark_gives_it_its_tree(engine: DecodingEngine) -> None:
    choices = [SimpleNamespace(name=info.name, title=info.title, available=True) for info in (made_up.INFO, CHAIN)]
    status = SimpleNamespace(drafters=choices[::-1])
    admission: Any = SimpleNamespace(engine=SimpleNamespace(status=status))
    assert EngineVerifier(admission).head() == ("glimpse", "A glimpse, chain")
    adopt(replace(made_up.WIDE, options=ShapeOptions, bench_shape=(2, 1)))
    systems, _ = drafter_systems(engine, BenchPlan(drafters=("wide-glimpse",)))
    assert [system.label.shape for system in systems] == [None, (2, 1)]


@pytest.mark.parametrize("name", ["glimpse", "wide-glimpse"])
def test_claims_count_it_among_the_heads(name: str) -> None:
    assert judged(9, row(name, (4.2, 4.5, 4.8)), row("ngram", (0.9, 1.0, 1.1))) is ClaimVerdict.HOLDS
    assert judged(9, row("ngram", (4.2, 4.5, 4.8))) is ClaimVerdict.UNMEASURED


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_it_decodes_what_the_target_says(engine: DecodingEngine, temperature: float) -> None:
    run = engine.decode("abcab", "glimpse", gamma=3, max_new_tokens=24, temperature=temperature, seed=3)
    assert any(event.depth == 3 for event in run.round_events)
    if temperature == 0:
        assert run.token_ids == engine.decode("abcab", "plain", max_new_tokens=24).token_ids


def test_it_learns_by_its_lesson(tiny: DecodingEngine) -> None:
    head = new_head("glimpse", tiny.target.network, torch.arange(2), ROPE)
    assert type(lesson_for(tiny.target.network, head)) is Blocks


def test_a_taken_or_unknown_name_is_refused() -> None:
    with pytest.raises(DraftscopeError, match="'mtp' has the name of a built-in one"):
        adopt(replace(made_up.INFO, name="other", head=replace(made_up.HEAD, name="mtp")))
    with pytest.raises(DraftscopeError, match=r"'glimps'; choose from eagle3, .*, glimpse, speculators"):
        head_kinds.find("glimps")
    assert "glimpse" not in program_list.methods("llama.cpp")


@pytest.mark.parametrize("kind", head_kinds.KINDS, ids=lambda kind: kind.name)
def test_every_kind_is_whole(kind: head_kinds.HeadKind, tiny: DecodingEngine) -> None:
    """What one list needs is there wherever another promises it: a drafter, a network, programs that know its name."""
    assert find(kind.name).head is kind
    assert set(kind.names) <= {program.kind for program in program_list.PROGRAMS}
    head = new_head(kind.name, tiny.target.network, torch.arange(2), ROPE)
    assert isinstance(head, kind.network().head) and lesson_for(tiny.target.network, head).weights
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


def test_a_drafter_whose_weights_are_in_the_target_needs_no_model() -> None:
    start = program_list.find_start("sglang")
    _, speculative = start.commands(ServedPair("small", "mtp"))
    assert "NEXTN" in speculative.arguments and "--speculative-draft-model-path" not in speculative.arguments
    with pytest.raises(DraftscopeError, match="--method eagle needs the drafter's model"):
        ServedPair("small", "eagle")
