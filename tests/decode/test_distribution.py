"""The distribution of the output, sampled through the real loop with its real caches, and the mutations that must be
caught.

Each distribution test fails a right implementation with probability 1e-6 (`check.FALSE_ALARM`); with the two dozen
tests here one false alarm is due in about 40,000 runs of the suite. Seeds are fixed, so in practice there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from draftscope.decode.engine import DecodingEngine
from draftscope.decode.session import Session
from draftscope.drafters.settings import Settings
from draftscope.measure.findings import FALSE_ALARM, Finding
from draftscope.measure.joint import sampled_joint
from draftscope.models.model import Model
from tests.support import mutations
from tests.support.contracts import SMALL, examples
from tests.support.distribution import distribution_test

SAMPLES = 2000  # in which all mutations below but the last are seen with p < 1e-18
TOGETHER = 2000  # samples decoded in one batch: tiny models spend most of a round outside their forwards
LOSSLESS = {name: {"drafter": name, **options} for name, options in examples(SMALL, typed="bcd||bd||acd").items()} | {
    "token": {"drafter": "draft", "rule": "token", "gamma": 3},
    "chain of one": {"drafter": "draft", "gamma": 1},
    "length by cost": {"drafter": "draft", "gamma": 3, "draft_length": "cost"},
    "length by confidence": {"drafter": "draft", "gamma": 3, "draft_length": "confidence"},
    "length by confidence, token": {"drafter": "draft", "gamma": 3, "draft_length": "confidence", "rule": "token"},
    "length by heuristic": {"drafter": "draft", "gamma": 3, "draft_length": "heuristic"},
    "length by SpecDec++": {"drafter": "draft", "gamma": 3, "draft_length": "specdec++", "confidence": 0.6},
    "length by AdaEDL": {"drafter": "draft", "gamma": 3, "draft_length": "adaedl", "confidence": 0.5},
    "sampled-tree, deep": {"drafter": "sampled-tree", "shape": (2, 1, 2)},
    "sampled-tree, every token": {"drafter": "sampled-tree", "shape": (5, 2)},
    "ngram": {"drafter": "ngram", "gamma": 3, "ngram": 2},
    "lookahead, four-grams": {"drafter": "lookahead", "window": 2, "ngram": 4},
    "oracle": {"drafter": "oracle", "gamma": 3, "oracle_curve": (0.7, 0.5)},
    "cascade": {"drafter": "cascade", "gamma": 3, "ngram": 1},
    "cascade, token": {"drafter": "cascade", "gamma": 3, "ngram": 2, "rule": "token"},
    "cascade over suffixes": {"drafter": "cascade", "gamma": 4, "inner": "suffix"},
    "ssd": {"drafter": "ssd", "gamma": 2, "prefetch": 2},
    "ssd, token": {"drafter": "ssd", "gamma": 3, "prefetch": 12, "rule": "token"},
    "early-exit, token": {"drafter": "early-exit", "gamma": 3, "rule": "token"},
    "early-exit, length by confidence": {"drafter": "early-exit", "gamma": 3, "draft_length": "confidence"},
    "eagle3, token": {"drafter": "eagle3", "gamma": 3, "rule": "token"},
    "eagle3, length by cost": {"drafter": "eagle3", "gamma": 3, "draft_length": "cost"},
    "dspark, length by confidence, token": {
        "drafter": "dspark", "gamma": 3, "draft_length": "confidence", "rule": "token"
    },
    "medusa, length by cost": {"drafter": "medusa", "gamma": 3, "draft_length": "cost"},
    "block, length by confidence": {"drafter": "block", "gamma": 3, "draft_length": "confidence"},
    "block, length by AdaEDL, token": {
        "drafter": "block", "gamma": 3, "draft_length": "adaedl", "confidence": 0.5, "rule": "token"
    },
}  # fmt: skip
WARPED = {"temperature": 0.7, "top_k": 4, "top_p": 0.9, "min_p": 0.02}


def distribution(
    engine: DecodingEngine, samples: int = SAMPLES, length: int = 4, batch: int = TOGETHER, **settings: object
) -> Finding:
    chosen = Settings.of(**{"temperature": 1.0, "seed": 5, **settings})
    return distribution_test(engine, "abcab", chosen, length, samples, batch, whole=batch < TOGETHER)


@pytest.mark.parametrize("name", LOSSLESS)
def test_the_joint_distribution_is_the_targets(tiny: DecodingEngine, name: str) -> None:
    finding = distribution(tiny, **LOSSLESS[name])
    assert finding.passed, finding.detail


def test_rows_whose_lengths_are_chosen_together_keep_their_distribution(tiny: DecodingEngine) -> None:
    """By cost each row's draft depends on what 31 others drew; its output must not."""
    finding = distribution(tiny, batch=32, **LOSSLESS["length by cost"])
    assert finding.passed, finding.detail


@pytest.mark.parametrize("name", ["draft", "sampled-tree", "lookahead", "mtp-tree"])
def test_a_sequence_that_ends_with_its_outcome_wrote_what_a_whole_one_writes(
    tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    rows: list[int] = []
    right = Session._propose
    monkeypatch.setattr(
        Session, "_propose", lambda self, *given: (rows.append(len(self._rows)), right(self, *given))[1]
    )
    settings, prompt = Settings.of(**LOSSLESS[name], temperature=1.0, seed=5), tiny.encode("abcab")
    short = sampled_joint(tiny, prompt, settings, 4, samples=200)
    decoded = sum(rows)
    assert sampled_joint(tiny, prompt, settings, 4, samples=200, whole=True) == short
    assert decoded < sum(rows) - decoded


@pytest.mark.parametrize("name", ["draft", "token", "sampled-tree", "topk-tree", "eagle3", "medusa", "block-tree"])
def test_the_joint_distribution_is_the_warped_targets(tiny: DecodingEngine, name: str) -> None:
    finding = distribution(tiny, **LOSSLESS[name], **WARPED)
    assert finding.passed, finding.detail


@pytest.mark.parametrize("name", ["draft", "sampled-tree"])
def test_a_draft_that_is_the_target_is_always_accepted(tiny: DecodingEngine, name: str) -> None:
    twin = DecodingEngine(tiny.target, tiny.target, tiny.tokenizer)
    run = twin.decode("abcab", max_new_tokens=60, temperature=1.0, **LOSSLESS[name])
    full = [event for event in run.round_events if event.depth == len(LOSSLESS[name].get("shape", (1, 1, 1)))]
    assert full
    # q is worked out one token at a time and p in one forward: equal up to rounding, so a uniform may fall between
    assert sum(event.last.kind == "bonus" for event in full) >= len(full) - 1


class Barred(Model):
    """A model that never writes some tokens."""

    bar: tuple[int, ...] = ()

    def forward_with_features(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        logits, features = super().forward_with_features(*args, **kwargs)
        return logits.index_fill(-1, torch.tensor(self.bar, dtype=torch.long), -torch.inf), features


@pytest.mark.parametrize("name", ["draft", "token", "sampled-tree"])
def test_disjoint_supports_accept_nothing_and_write_the_targets_distribution(tiny: DecodingEngine, name: str) -> None:
    target, draft = (
        Barred(each.network, each.name, capabilities=each.capabilities) for each in (tiny.target, tiny.draft)
    )
    target.bar, draft.bar = (4,), (0, 1, 2, 3)
    parted = DecodingEngine(target, draft, tiny.tokenizer)
    finding = distribution(parted, **LOSSLESS[name])
    assert finding.passed, finding.detail
    run = parted.decode("abcab", max_new_tokens=20, temperature=1.0, **LOSSLESS[name])
    assert run.metrics.num_draft_tokens > 0
    assert run.metrics.num_accepted_tokens == 0


# Mutations: each breaks one thing that this field gets wrong, and the distribution test must see it.


Mutate = Callable[[pytest.MonkeyPatch], None]


def caught(finding: Finding) -> bool:
    return finding.p_value is not None and finding.p_value < FALSE_ALARM


@pytest.mark.parametrize("rule", ["block", "token"])
@pytest.mark.parametrize("broken", [mutations.argmax_drafts, mutations.improbable_dropped])
def test_wrong_drafts_of_a_chain_are_caught(
    tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch, broken: Mutate, rule: str
) -> None:
    broken(monkeypatch)
    assert caught(distribution(tiny, drafter="draft", rule=rule, gamma=3))


@pytest.mark.parametrize("rule", ["block", "token"])
def test_q_before_the_warpers_is_caught(tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    mutations.unwarped_q(monkeypatch)
    assert caught(distribution(tiny, drafter="draft", rule=rule, gamma=3, temperature=0.5))


@pytest.mark.parametrize("broken", [mutations.last_from_p, mutations.shared_uniform])
def test_wrong_verification_of_a_chain_is_caught(
    tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch, broken: Mutate
) -> None:
    broken(monkeypatch)
    assert caught(distribution(tiny, drafter="draft", rule="token", gamma=3))


@pytest.mark.parametrize(
    ("broken", "shape"),
    [
        (mutations.q_keeps_rejected, (3, 2)),
        (mutations.reranked, (2, 2)),
        (mutations.wrong_branch_kept, (3, 2)),  # cache bugs hide in round two
    ],
)
def test_a_broken_sampled_tree_is_caught(
    tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch, broken: Mutate, shape: tuple[int, ...]
) -> None:
    broken(monkeypatch)
    assert caught(distribution(tiny, drafter="sampled-tree", shape=shape))


def test_a_token_dropped_after_it_was_drawn_is_caught(tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    mutations.token_dropped(monkeypatch)
    assert caught(distribution(tiny, drafter="medusa", gamma=3, draft_length="confidence", rule="token"))


@pytest.mark.parametrize("name", ["draft", "sampled-tree"])
def test_noise_keyed_by_position_is_caught(tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    mutations.reused_noise(monkeypatch)
    assert caught(distribution(tiny, 9_000, 3, **LOSSLESS[name]))
