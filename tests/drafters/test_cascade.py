"""The cascade: every tier drafts from its own model's distribution with fewer forwards; and mutations that break it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch

from draftscope import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.model import cascade, ssd, tiers
from draftscope.drafters.policy import bandit
from draftscope.drafters.settings import Settings
from draftscope.models.model import Model
from draftscope.models.probe import probed
from draftscope.trace import events
from draftscope.trace.result import Result
from draftscope.verify.uniforms import Streams, Uniforms
from tests.decode.test_distribution import LOSSLESS, caught, distribution
from tests.support.models import random_llama

CLOSE = {"atol": 2e-5, "rtol": 1e-3}
THREE = {"drafter": "cascade", "gamma": 4, "inner": "none"}  # target, middle, small
FOUR = {"drafter": "cascade", "gamma": 4, "inner": "ngram", "ngram": 1}


@torch.inference_mode()
def check_distributions(engine: DecodingEngine, inner: str, temperature: float) -> None:
    """Every slot's distribution is that of the draft model run from scratch over the whole text, with or without
    rejections."""
    prompts = [engine.encode(text) for text in ("abcabcabcab", "a")]
    settings = Settings.of(drafter="cascade", gamma=4, inner=inner, temperature=temperature, max_new_tokens=20, seed=2)
    session = engine.start_batch(prompts, settings, (0, 1), ends=False)
    texts, held = [list(prompt) for prompt in prompts], 0
    for step in session.steps():
        for b, text in enumerate(texts):
            if step.live[b] and step.tree.distributions is not None:
                drafted = step.tree.tokens[b].tolist()
                logits = engine.draft.network(torch.tensor([text + drafted[:-1]]), use_cache=False).logits[0]
                want = logits[len(text) - 1 :].softmax(-1)
                torch.testing.assert_close(step.tree.distributions[b], want, **CLOSE)
                held += 1
        texts = [p + t.tokens for p, t in zip(prompts, session.transcripts, strict=True)]
    assert held > 5


def tiered(engine: DecodingEngine, *smaller: Model) -> DecodingEngine:
    """The engine with models below its draft model."""
    more = DecodingEngine(engine.target, engine.draft, engine.tokenizer, engine.heads, smaller)
    more.eos, more.calibration = engine.eos, engine.calibration
    return more


@pytest.fixture(scope="module")
def tiny3(tiny: DecodingEngine) -> DecodingEngine:
    return tiered(tiny, probed(random_llama(7, 5, layers=1, hidden=16), "tiny-small"))


@pytest.fixture(scope="module")
def pair3(pair: DecodingEngine) -> DecodingEngine:
    return tiered(pair, probed(random_llama(8, 258, layers=1, hidden=16), "byte-small"))


@pytest.fixture(scope="module")
def twin(pair: DecodingEngine) -> DecodingEngine:
    """Target and middle model are the same, so whole drafts are accepted."""
    return DecodingEngine(pair.draft, pair.draft, pair.tokenizer)


@pytest.fixture(scope="module")
def triplet(pair: DecodingEngine) -> DecodingEngine:
    """All three tiers are the same model; copies count their own forwards."""
    network = pair.draft.network
    return DecodingEngine(pair.draft, probed(network, "middle"), pair.tokenizer, smaller=(probed(network, "small"),))


@pytest.mark.parametrize("inner", ["ngram", "suffix"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_claimed_distributions_are_the_middle_models(
    pair: DecodingEngine, twin: DecodingEngine, inner: str, temperature: float
) -> None:
    check_distributions(pair, inner, temperature)
    check_distributions(twin, inner, temperature)


@pytest.mark.parametrize("inner", ["none", "ngram"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_model_below_the_middle_one_leaves_its_distribution_alone(
    pair3: DecodingEngine, triplet: DecodingEngine, inner: str, temperature: float
) -> None:
    check_distributions(pair3, inner, temperature)
    check_distributions(triplet, inner, temperature)


@pytest.mark.parametrize("settings", [THREE, THREE | {"rule": "token"}, FOUR], ids=["three", "three, token", "four"])
def test_the_joint_distribution_of_three_and_four_tiers_is_the_targets(
    tiny3: DecodingEngine, settings: dict[str, Any]
) -> None:
    finding = distribution(tiny3, **settings)
    assert finding.passed, finding.detail


@pytest.mark.parametrize("inner", ["none", "ngram", "suffix"])
def test_three_models_write_plains_greedy_tokens(pair3: DecodingEngine, triplet: DecodingEngine, inner: str) -> None:
    for engine in (pair3, triplet):
        plain = engine.decode("abcabc", "plain", max_new_tokens=60)
        assert engine.decode("abcabc", "cascade", gamma=5, inner=inner, max_new_tokens=60).token_ids == plain.token_ids


@pytest.mark.parametrize("inner", ["ngram", "suffix"])
def test_accepted_guesses_save_forwards_of_the_middle_model(twin: DecodingEngine, inner: str) -> None:
    """The target is the middle model and repeats itself: its drafts are always accepted, and mostly guessed."""
    plain = twin.decode("abcabc", "plain", max_new_tokens=80)
    run = twin.decode("abcabc", "cascade", gamma=6, inner=inner, max_new_tokens=80)
    nodes = [node for event in run.round_events for node in event.nodes if node.fate == "accepted"]
    middle = sum(len(event.timings.propose) - 1 for event in run.round_events)
    assert run.token_ids == plain.token_ids
    assert sum(node.origin.endswith(", guessed") for node in nodes) > len(nodes) / 4
    assert middle < 0.8 * len(nodes)


def works(run: Result) -> Counter[str]:
    """Forwards by model, from the trace."""
    told: Counter[str] = Counter()
    for event in run.round_events:
        (note,) = event.annotations
        assert isinstance(note, events.Tiers)
        told.update({tier.model: tier.forwards for tier in note.tiers})
    return told


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_trace_counts_every_tiers_forwards(pair3: DecodingEngine, temperature: float) -> None:
    models = (pair3.draft, *pair3.smaller)
    before = [model.counter.forwards for model in models]
    run = pair3.decode("abcab", "cascade", inner="none", gamma=3, temperature=temperature, max_new_tokens=30, seed=1)
    made = [model.counter.forwards - had - 1 for model, had in zip(models, before, strict=True)]  # less the prompt
    assert works(run) == dict(zip([model.name for model in models], made, strict=True))
    assert min(made) > 10
    assert [model.name for model in run.events[0].models] == ["byte-target", "byte-draft", "byte-small"]


def test_a_middle_model_reads_whole_drafts_at_once(triplet: DecodingEngine) -> None:
    """Three equal models at T = 0: the small one writes 5 of 6 tokens, the middle one agrees in a single forward."""
    run = triplet.decode("abcabc", "cascade", inner="none", gamma=6, max_new_tokens=71)
    assert len(run.round_events) == 11  # ten of seven tokens, and one of the last
    assert works(run) == {"middle": 10, "small": 50}


# Streams.


def streams_asked(engine: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[int, int]]:
    """How often a run with four tiers, three of which draw, asks for the uniforms of each (tier, index)."""
    asked: Counter[tuple[int, int]] = Counter()
    right = Streams.uniforms

    def counted(self: Streams, index: int, *rest: Any) -> Uniforms:
        asked[self.tier, index] += 1
        return right(self, index, *rest)

    with monkeypatch.context() as watching:
        watching.setattr(Streams, "uniforms", counted)
        engine.decode("abcab", temperature=1.0, max_new_tokens=40, seed=3, record=False, **FOUR)
    return asked


def test_no_two_tiers_share_a_stream(tiny3: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key is used once, by one tier; this test would detect a key that two tiers share."""
    asked = streams_asked(tiny3, monkeypatch)
    assert len({tier for tier, _ in asked}) == 3
    assert set(asked.values()) == {1}
    right = Streams.below
    monkeypatch.setattr(Streams, "below", lambda self, tier: right(self, tier) if self.tier == 0 else self)
    assert max(streams_asked(tiny3, monkeypatch).values()) > 1


def test_the_key_of_a_tier_is_its_path() -> None:
    marks = (cascade.TIER, bandit.TIER, ssd.TIER)
    root = Streams(0, (0,))
    ways = [root, *(root.below(a) for a in marks), *(root.below(a).below(b) for a in marks for b in marks)]
    assert len({streams.tier for streams in ways}) == 1 + 3 + 9
    assert root.below(bandit.TIER).sequences == root.sequences


@pytest.mark.parametrize("rule", ["block", "token"])
def test_uniforms_shared_by_both_tiers_are_caught(
    tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    monkeypatch.setattr(cascade, "TIER", 0)
    assert caught(distribution(tiny, **LOSSLESS["cascade"] | {"rule": rule}))


@pytest.mark.parametrize("rule", ["block", "token"])
def test_uniforms_used_again_in_the_next_round_are_caught(
    tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    """Keyed only by the place in the draft, like noise keyed by position."""
    right = tiers.Tier._uniforms
    monkeypatch.setattr(tiers.Tier, "_uniforms", lambda self, index: right(self, index % self._most))
    assert caught(distribution(tiny, **LOSSLESS["cascade"] | {"rule": rule}))


# Other mutations.


@pytest.mark.parametrize(("rule", "settings"), [("verify_tree", FOUR), ("verify_block", THREE)])
def test_guesses_without_verification_are_caught(
    tiny3: DecodingEngine, monkeypatch: pytest.MonkeyPatch, rule: str, settings: dict[str, Any]
) -> None:
    """Without verification, guesses are not drawn from the distribution that the target uses for them."""
    right = getattr(tiers, rule)

    def trusting(p: torch.Tensor, tree: Any, uniforms: Uniforms) -> Any:
        return replace(right(p, tree, uniforms), accepted=(~tree.never_accepted).sum(-1))

    monkeypatch.setattr(tiers, rule, trusting)
    assert caught(distribution(tiny3, **settings))


def test_a_token_that_the_middle_model_never_read_is_seen(
    twin: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a whole draft was accepted, its last token is committed and in no cache."""

    def careless(self: tiers.Tier, lengths: list[int]) -> None:
        self._cached = list(lengths)

    monkeypatch.setattr(tiers.Tier, "forget", careless)
    with pytest.raises(AssertionError, match="not close"):
        check_distributions(twin, "ngram", 1.0)


def test_a_rejected_token_that_stays_in_a_cache_is_seen(pair3: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers.Tier, "forget", lambda self, lengths: None)
    with pytest.raises((AssertionError, ValueError, RuntimeError)):
        check_distributions(pair3, "none", 1.0)


def test_a_recurrent_state_is_refused_in_a_cascade(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    small = probed(pair.draft.network, "stateful")
    monkeypatch.setattr(Model, "stateful", property(lambda self: self is small))
    with pytest.raises(DraftscopeError, match="the state of 'stateful' does not allow that; choose another"):
        tiered(pair, small).decode("ab", "cascade")
