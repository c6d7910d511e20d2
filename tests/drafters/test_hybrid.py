"""The head and copying in one chain: which source it chooses, that the output stays the target's, and that it stops
where nothing pays."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from draftscope.base.progress import Progress
from draftscope.base.steps import Steps
from draftscope.decode.availability import default_drafter
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.lane import Lane
from draftscope.decode.open_session import MeasuredPair
from draftscope.drafters.drafter import State, TextDraftModel
from draftscope.drafters.heads.hybrid import HybridDrafter
from draftscope.drafters.length import MAX_RETRY_AFTER, Rate
from draftscope.drafters.mixed_length import MixedChain, MixedCosts
from draftscope.drafters.settings import Settings
from draftscope.measure.findings import FALSE_ALARM
from draftscope.verify.tree import DraftTree
from tests.support.distribution import distribution_test

MOST = 4


def chain(guess: float, copy: float, most: int = MOST) -> MixedChain:
    """A chain that pays `guess` plain rounds for each guess and `copy` for each copied token."""
    price = {"head": guess, "copying": copy}
    return MixedChain(MixedCosts(lambda name, count, _: 1 + price[name] * count, "head", "copying", most, 1))


def drafted(mixed: MixedChain, text: list[int], q: float = 0.5, limit: int = MOST) -> tuple[list[int], list[int]]:
    """The guesses, which are all 9, and the copied tokens of one round."""
    mixed.begin(text, limit)
    while mixed.guesses_on:
        mixed.guessed(9, q)
    return mixed.guesses, [token for token, _ in mixed.copied]


REPEATS = [*range(1, 9), 20, 21, 22, 23, *range(1, 9)]  # 20 21 22 23 follows the eight tokens at the end


def test_a_long_match_is_copied_and_a_text_without_one_is_guessed() -> None:
    assert drafted(chain(0.1, 0.1), REPEATS) == ([], [20, 21, 22, 23])
    assert drafted(chain(0.1, 0.1), [1, 2, 3, 4, 5, 6]) == ([9] * MOST, [])


def test_a_guess_that_leads_back_into_the_text_is_followed_by_copies() -> None:
    """Nothing follows 3, so a 9 is guessed, and 5 6 7 followed a 9. Copies were mostly accepted here."""
    mixed = chain(0.1, 0.1)
    mixed._copying = [Rate(0.95) for _ in mixed._copying]
    assert drafted(mixed, [1, 2, 9, 5, 6, 7, 3]) == ([9], [5, 6, 7])


def test_an_estimate_follows_what_was_accepted() -> None:
    """Copies that are always refused give way to guesses, which are always accepted."""
    mixed = chain(0.1, 0.1)
    for _ in range(60):
        guesses, _ = drafted(mixed, REPEATS)
        mixed.observe(len(guesses))
    assert drafted(mixed, REPEATS) == ([9] * MOST, [])


@pytest.mark.parametrize("accepted", [False, True])
def test_where_nothing_pays_it_drafts_only_seldom(accepted: bool) -> None:
    """A guess costs two plain rounds and brings at most one token."""
    mixed, drafts = chain(2.0, 2.0), []
    for _ in range(1000):
        drafted(mixed, REPEATS)
        drafts.append(len(mixed.tokens))
        mixed.observe(len(mixed.tokens) if accepted else 0)
    assert sum(map(bool, drafts[-MAX_RETRY_AFTER * 4 :])) <= 5


def test_it_never_drafts_more_than_there_is_room_for() -> None:
    for limit in range(MOST + 1):
        for text in (REPEATS, [1, 2, 3]):
            mixed = chain(0.01, 0.01)
            drafted(mixed, text, limit=limit)
            assert len(mixed.tokens) <= limit


class CheapRounds(MeasuredPair):
    def cost(self, like: str, gamma: int, batch: int, context: int) -> float:
        return 1 + (0.2 if like == "eagle3" else 0.01) * gamma


class Cheap(DecodingEngine):
    """A drafted token costs so little of a round, a copied one still less, that both sources draft."""

    @classmethod
    def of(cls, engine: DecodingEngine) -> Cheap:
        return cls(engine.target, engine.draft, engine.tokenizer, engine.heads)

    def measuring(self, lane: Lane, batch: int = 1) -> Steps[Progress, MeasuredPair]:
        yield from ()
        return CheapRounds()


def test_it_drafts_where_no_drafter_is_named_and_no_draft_model_is_loaded(tiny: DecodingEngine) -> None:
    assert default_drafter(tiny) == "draft"
    assert tiny.draft is not None
    foreign = TextDraftModel(tiny.draft, tiny.tokenizer)
    assert default_drafter(DecodingEngine(tiny.target, None, tiny.tokenizer, {}, foreign=foreign)) == "slem"
    assert default_drafter(DecodingEngine(tiny.target, None, tiny.tokenizer, tiny.heads)) == "hybrid"
    assert default_drafter(DecodingEngine(tiny.target, None, tiny.tokenizer, {})) == "ngram"


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many trees had guesses, copies, or both in one chain."""
    seen: Counter[str] = Counter()
    right = HybridDrafter.propose

    def propose(self: HybridDrafter, state: State, depth: int) -> DraftTree:
        tree = right(self, state, depth)
        for mixed in self._chains:
            seen["guessed" * bool(mixed.guesses) + "copied" * bool(mixed.copied)] += 1
        return tree

    monkeypatch.setattr(HybridDrafter, "propose", propose)
    return seen


def p_value(engine: DecodingEngine, samples: int = 1000, batch: int = 1000, **more: Any) -> float:
    settings = Settings.of(drafter="hybrid", gamma=3, temperature=1.0, seed=5, **more)
    return distribution_test(engine, "abcabdabca", settings, 5, samples, batch, whole=True).p_value


# A guess that is dropped, as below, is seen with p < 1e-60 in 400 texts alone and p < 1e-100 in 800 in fours. A copy
# that passes for a guess needs a text beside it: p = 1.4e-10 with 800 in fours, 3e-36 with 2,000 token by token.
# A false alarm is p < 1e-6.
@pytest.mark.parametrize(
    ("samples", "batch", "rule"),
    [
        (800, 4, "block"),
        pytest.param(400, 1, "block", marks=pytest.mark.slow),
        (2000, 1000, "token"),
    ],
)
def test_the_joint_distribution_is_the_targets_whatever_the_sources(
    tiny: DecodingEngine, sources: Counter[str], samples: int, batch: int, rule: str
) -> None:
    """Where none copies, chains of guesses are verified as blocks; beside one that does, token by token."""
    assert p_value(Cheap.of(tiny), samples, batch, rule=rule) >= FALSE_ALARM
    assert min(sources["guessed"], sources["copied"], sources["guessedcopied"]) > samples / 50


def test_a_dropped_guess_is_seen(tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guess that the text does not continue with is replaced by a copy, after it was drawn: that is not exact."""
    right = MixedChain.guessed

    def guessed(self: MixedChain, token: int, q: float) -> None:
        found = self._index.continuation(1, self.guesses)
        right(self, found[0][0] if found else token, q)

    monkeypatch.setattr(MixedChain, "guessed", guessed)
    assert p_value(Cheap.of(tiny)) < FALSE_ALARM**2


def test_a_copy_that_passes_for_a_guess_is_seen(tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies are verified as if they had been drawn from the head's first distribution."""
    right = HybridDrafter._tree

    def drawn(self: HybridDrafter, distributions: list[torch.Tensor], times: tuple[float, ...]) -> DraftTree:
        tree = right(self, distributions, times)
        if tree.drawn != "some":
            return tree
        object.__setattr__(tree, "proposal_row", tree.proposal_row.clamp(min=0))
        return tree

    monkeypatch.setattr(HybridDrafter, "_tree", drawn)
    assert p_value(Cheap.of(tiny)) < FALSE_ALARM**2
