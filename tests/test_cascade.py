"""The cascade: its drafts are drawn from the middle model's law, in fewer of its forwards; and what breaks that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from draftscope.drafters import Outcome, cascade
from draftscope.lab import Lab
from draftscope.settings import Settings
from draftscope.streams import Coins
from tests.test_law import LOSSLESS, caught, law

CLOSE = {"atol": 2e-5, "rtol": 1e-3}


@torch.inference_mode()
def check_laws(lab: Lab, inner: str, temperature: float) -> None:
    """Every slot's law is the one of the draft model run from scratch over the whole text, rejections or not."""
    prompts = [lab.encode(text) for text in ("abcabcabcab", "a")]
    settings = Settings.of(drafter="cascade", gamma=3, inner=inner, temperature=temperature, max_new_tokens=20, seed=2)
    session = lab.session_of(prompts, settings, (0, 1), ends=False)
    texts, held = [list(prompt) for prompt in prompts], 0
    for step in session.steps():
        for b, text in enumerate(texts):
            if step.live[b] and step.tree.laws is not None:
                drafted = step.tree.tokens[b].tolist()
                logits = lab.draft.network(torch.tensor([text + drafted[:-1]]), use_cache=False).logits[0]
                want = logits[len(text) - 1 :].softmax(-1)
                torch.testing.assert_close(step.tree.laws[b], want, **CLOSE)
                held += 1
        texts = [p + t.tokens for p, t in zip(prompts, session.transcripts, strict=True)]
    assert held > 5


@pytest.fixture(scope="module")
def twin(pair: Lab) -> Lab:
    """Target and middle model are one, so that whole drafts are accepted."""
    return Lab(pair.draft, pair.draft, pair.tokenizer)


@pytest.mark.parametrize("inner", ["ngram", "suffix"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_claimed_laws_are_the_middle_models(pair: Lab, twin: Lab, inner: str, temperature: float) -> None:
    check_laws(pair, inner, temperature)
    check_laws(twin, inner, temperature)


@pytest.mark.parametrize("inner", ["ngram", "suffix"])
def test_guesses_that_stand_save_forwards_of_the_middle_model(twin: Lab, inner: str) -> None:
    """The target is the middle model, and loops: its drafts are always accepted, and mostly guessed."""
    plain = twin.decode("abcabc", "plain", max_new_tokens=80)
    run = twin.decode("abcabc", "cascade", gamma=6, inner=inner, max_new_tokens=80)
    nodes = [node for event in run.rounds for node in event.nodes if node.fate == "accepted"]
    middle = sum(len(event.timings.propose) - 1 for event in run.rounds)
    assert run.token_ids == plain.token_ids
    assert sum(node.origin == "middle model, guessed" for node in nodes) > len(nodes) / 4
    assert middle < 0.8 * len(nodes)


@pytest.mark.parametrize("rule", ["block", "token"])
def test_coins_shared_by_both_tiers_are_caught(tiny: Lab, monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    monkeypatch.setattr(cascade, "TIER", 0)
    assert caught(law(tiny, 2000, **LOSSLESS["cascade"] | {"rule": rule}))


@pytest.mark.parametrize("rule", ["block", "token"])
def test_coins_used_again_in_the_next_round_are_caught(tiny: Lab, monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    """Keyed by the place in the draft alone, as position-keyed noise would be."""
    right = cascade.Cascade._coins
    monkeypatch.setattr(cascade.Cascade, "_coins", lambda self, index: right(self, index % self._settings.gamma))
    assert caught(law(tiny, 2000, **LOSSLESS["cascade"] | {"rule": rule}))


def test_guesses_that_nobody_verified_are_caught(tiny: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken as they come, guesses are not drawn from the law that judges them."""
    right = cascade.judge_tree

    def trusting(p: torch.Tensor, tree: Any, coins: Coins) -> Any:
        return replace(right(p, tree, coins), accepted=(~tree.scout).sum(-1))

    monkeypatch.setattr(cascade, "judge_tree", trusting)
    assert caught(law(tiny, 2000, **LOSSLESS["cascade"]))


def test_a_token_that_the_middle_model_never_read_is_seen(twin: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a whole draft was accepted, its last token is committed and in no cache."""

    def careless(self: cascade.Cascade, outcome: Outcome) -> None:
        self._cached = [start + len(path) for start, path in zip(self._committed, outcome.paths, strict=True)]

    monkeypatch.setattr(cascade.Cascade, "observe", careless)
    with pytest.raises(AssertionError, match="not close"):
        check_laws(twin, "ngram", 1.0)
