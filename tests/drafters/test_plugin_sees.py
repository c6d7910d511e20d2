"""What a drafter from elsewhere can see: nothing of the numbers that judge it, and nothing of the text to come."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import draftscope
from draftscope import DraftscopeError
from draftscope.base.text import Pieces, Transcript
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.recorder import Recorder
from draftscope.decode.session import Session
from draftscope.drafters.drafter import Outcome, Parts, State
from draftscope.drafters.options import DrawnChainOptions
from draftscope.drafters.settings import Settings
from draftscope.measure import check as checks
from draftscope.measure.findings import verdict
from draftscope.verify import uniforms as random_numbers
from draftscope.verify.tree import DraftTree
from draftscope.verify.uniforms import Streams, Uniforms, no_uniforms
from tests.drafters.test_plugin import clean as clean
from tests.drafters.test_plugin import plugged_in
from tests.measure.test_plugin_faults import Bigram

SEED = 876_543_210_987_654
SKIPPED = (type, types.ModuleType, str, bytes, float, bool, type(None), torch.dtype, torch.device)
JUDGES = (Uniforms, Session, Recorder, DecodingEngine, Transcript, np.random.Generator, np.random.BitGenerator)


def reached(*roots: object) -> Iterator[object]:
    """Everything that attributes, items and closures lead to; not a module's names, which any code can import."""
    seen: dict[int, object] = {}
    left = list(roots)
    while left:
        thing = left.pop()
        if id(thing) in seen or isinstance(thing, SKIPPED):
            continue
        seen[id(thing)] = thing
        yield thing
        left += behind(thing)


def behind(thing: Any) -> list[Any]:
    if isinstance(thing, Mapping):
        return [*thing.keys(), *thing.values()]
    if isinstance(thing, list | tuple | set | frozenset):
        return list(thing)
    if isinstance(thing, types.MethodType):
        return [thing.__self__, thing.__func__]
    if isinstance(thing, types.FunctionType):
        cells = [cell.cell_contents for cell in thing.__closure__ or () if not_empty(cell)]
        return [*cells, *(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
    if isinstance(thing, functools.partial):
        return [thing.func, *thing.args, *thing.keywords.values()]
    if isinstance(thing, Tensor | int | np.ndarray):
        return []
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*getattr(thing, "__dict__", {}).values(), *(getattr(thing, name, None) for name in slots)]


def not_empty(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def numbers(tensor: Tensor) -> NDArray[np.float64]:
    """Every double in the memory that a tensor lies in, which a view of it leads to."""
    storage = tensor.detach().untyped_storage()
    whole = torch.tensor([], dtype=torch.uint8).set_(storage)
    return whole[: len(whole) // 8 * 8].numpy().view(np.float64)


class Looks(Bigram):
    """Looks through all that it is given, for what will judge the round."""

    options = DrawnChainOptions
    found: ClassVar[list[str]] = []
    rounds = 0

    def __init__(self, parts: Parts[DrawnChainOptions]) -> None:
        super().__init__(parts)  # type: ignore[arg-type]
        self.parts = parts

    def propose(self, state: State, depth: int) -> DraftTree:
        Looks.rounds, self.round = Looks.rounds + 1, state.round
        judge = Streams(SEED, (0,)).uniforms(state.round, self.gamma)
        assert (judge.draft == state.uniforms.draft).all()
        self.look(judge, state)
        state.texts[0].append(3)  # type: ignore[attr-defined]
        state.texts[0].pop()  # type: ignore[attr-defined]
        return super().propose(state, depth)

    def observe(self, outcome: Outcome) -> None:
        for index in (self.round, self.round + 1):
            self.look(Streams(SEED, (0,)).uniforms(index, self.gamma), outcome)

    def look(self, judge: Uniforms, given: object) -> None:
        never = np.concatenate([judge.accept.numpy().ravel(), judge.last.numpy().ravel()])
        for thing in reached(self.parts, given):
            if isinstance(thing, JUDGES) or (isinstance(thing, int) and thing == SEED):
                Looks.found.append(repr(thing)[:80])
            if isinstance(thing, Tensor) and np.isin(numbers(thing), never).any():
                Looks.found.append(f"a tensor {list(thing.shape)} with the numbers that judge")


@pytest.fixture
def looking(tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> type[Looks]:
    """As on CUDA all numbers of a round lie in one piece of memory."""

    def together(_: object, *arrays: NDArray[np.float64]) -> list[Tensor]:
        flat = torch.from_numpy(np.concatenate([array.ravel() for array in arrays]))
        sizes = [array.size for array in arrays]
        return [part.view(array.shape) for part, array in zip(flat.split(sizes), arrays, strict=True)]

    monkeypatch.setattr(random_numbers, "tensors_on", together)
    monkeypatch.setattr(Looks, "found", [])
    monkeypatch.setattr(Looks, "rounds", 0)
    return Looks


def test_the_search_finds_what_is_there(tiny: DecodingEngine) -> None:
    streams = Streams(SEED, (0,))
    numbers_of_round = streams.uniforms(0, 4)
    flat = torch.cat([numbers_of_round.draft, numbers_of_round.accept], 1)
    for roots in ({"a": [streams]}, lambda: streams, functools.partial(print, streams), streams.uniforms):
        assert SEED in list(reached(roots))
    assert np.isin(numbers(flat[:, :4]), numbers_of_round.accept.numpy()).any()
    assert any(isinstance(thing, DecodingEngine) for thing in reached(tiny.decode))
    assert isinstance(tiny.pieces, Pieces)


@pytest.mark.parametrize("arms", [(), ("looks", "draft:2")], ids=["itself", "an arm"])
def test_a_drafter_from_elsewhere_finds_nothing_of_what_judges_it(
    tiny: DecodingEngine, looking: type[Looks], arms: tuple[str, ...]
) -> None:
    more: dict[str, Any] = {"arms": arms} if arms else {}
    name = draftscope.drafters.adopt(looking)
    run = tiny.decode("abcab", "bandit" if arms else name, temperature=1.0, max_new_tokens=30, seed=SEED, **more)
    assert len(run.token_ids) == 30 and looking.rounds
    assert not looking.found, looking.found[:4]


def test_its_texts_are_copies(tiny: DecodingEngine) -> None:
    """What it does to them changes nothing that is written."""

    class Writes(Bigram):
        options = DrawnChainOptions

        def propose(self, state: State, depth: int) -> DraftTree:
            tree = super().propose(state, depth)
            for text in state.texts:
                text.clear()  # type: ignore[attr-defined]
            return tree

    class Honest(Bigram):
        options = DrawnChainOptions

    honest, wrong = (
        tiny.decode("abcab", drafter, temperature=1.0, max_new_tokens=30, seed=3) for drafter in (Honest, Writes)
    )
    assert honest.token_ids == wrong.token_ids


def test_its_streams_are_others_than_the_targets(tiny: DecodingEngine) -> None:
    """Repeated with the seed, one after the other, and none of the target's."""
    target = Streams(5, (0, 1))
    apart = target.apart()
    assert apart == Streams(5, (0, 1)).apart() != Streams(6, (0, 1)).apart()
    assert apart.sequences == target.sequences and apart.seed != 5
    for other in (apart, apart.below(1)):
        assert not np.isin(other.uniforms(0, 9).accept, target.uniforms(0, 9).accept).any()
    assert target.below(1).apart() != apart


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda parts: parts.target_continuation(parts.streams), "asks for the text to come"),
        (lambda parts: parts.cost(1, 1), "are not calibrated, only built-in ones"),
        (lambda parts: parts.cost_like("draft", 1, 1), "are not calibrated, only built-in ones"),
    ],
    ids=["continuation", "cost", "cost of another"],
)
def test_what_leads_to_the_engine_is_refused(tiny: DecodingEngine, ask: Any, sentence: str) -> None:
    class Asks(Bigram):
        options = DrawnChainOptions

        def __init__(self, parts: Parts[Any]) -> None:
            super().__init__(parts)
            ask(parts)

    with pytest.raises(DraftscopeError, match=sentence):
        tiny.decode("abcab", Asks, max_new_tokens=4)


class Ends(Bigram):
    """Ends its chain where the number that judges a token is large: more tokens are accepted than should be."""

    options = DrawnChainOptions

    def propose(self, state: State, depth: int) -> DraftTree:
        never = (self.judges(state) > 0.85).cumsum(-1) > 0
        tree = super().propose(state, depth)
        return replace(tree, never_accepted=never[:, : tree.nodes])

    def judges(self, state: State) -> Tensor:
        return state.uniforms.accept  # type: ignore[attr-defined, no-any-return]


class Guesses(Ends):
    """Tries seeds until one gives the numbers that it draws with."""

    seeds: ClassVar[list[int]] = []

    def judges(self, state: State) -> Tensor:
        nodes = self.gamma
        for seed in range(4):
            streams = Streams(seed, tuple(range(len(state.texts))))
            known = streams.uniforms(state.round, nodes)
            if torch.equal(known.draft[:, :1], state.uniforms.draft[:, :1]):
                Guesses.seeds.append(seed)
                return known.accept
        return torch.zeros_like(state.uniforms.draft)


def test_a_chain_cannot_end_by_the_number_that_would_reject_it(
    tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a drafter was acquitted by every test of a check."""
    with pytest.raises(DraftscopeError, match=r"'ends' failed in propose, round 0: AttributeError.*'accept'"):
        tiny.decode("abcab", Ends, temperature=1.0, max_new_tokens=4)
    monkeypatch.setattr(checks, "TESTS", ())
    findings = list(checks.check(tiny, "ends", 500, rule="token", prompts=("abcab",)))
    assert not any(finding.passed for finding in findings)
    assert verdict(findings, exact=True, proved=False).startswith("The engine ended with an error")


def test_a_seed_cannot_be_guessed_in_a_check(tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # `clean` fixes the seed
    plugged_in(monkeypatch)
    name = draftscope.drafters.adopt(Guesses)
    monkeypatch.setattr(checks, "TESTS", ())
    monkeypatch.setattr(Guesses, "seeds", [])
    steps = checks.steps(tiny, name, 500, seed=0, rule="token", prompts=("abcab",), like=Settings.of(temperature=1.0))
    for _, _ in zip(range(20), steps, strict=False):
        pass
    assert not Guesses.seeds
    tiny.decode("abcab", name, temperature=1.0, max_new_tokens=4)
    assert set(Guesses.seeds) == {0}  # outside a check there is nothing to hide


def test_a_greedy_round_has_no_numbers_at_all() -> None:
    assert not no_uniforms(2, 3).draft.any()
