"""What each round of a sampled run must satisfy: right rules pass, and wrong ones show in few runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.measure import check as checks
from draftscope.measure.findings import FALSE_ALARM, Finding
from draftscope.measure.round_checks import FavouredTokens, UsedUniforms
from draftscope.measure.sampled import sampled_tests
from tests.decode.test_distribution import LOSSLESS
from tests.support import mutations
from tests.support.quick import quick

SAMPLES = 600
NAMES = (
    "fresh random numbers",
    "sums of probabilities",
    "drafted tokens",
    "tokens that the draft favours",
    "joint distribution",
)


@pytest.fixture(autouse=True)
def sampled_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "TESTS", ())


def found(engine: DecodingEngine, samples: int = SAMPLES, **settings: Any) -> dict[str, Finding]:
    """The findings of the sampled tests, by the beginnings of their names."""
    asked = Settings.of(**({"temperature": 1.0, "seed": 5} | settings))
    texts = [engine.encode(text) for text in ("abcab", "dacb", "aa")]
    runs = sampled_tests(engine, texts[0], asked, 4, samples, texts)
    findings = [each for each in runs if isinstance(each, Finding)]
    return {next(name for name in NAMES if each.name.startswith(name)): each for each in findings}


RIGHT = (
    "draft", "token", "length by confidence", "sampled-tree", "topk-tree", "ngram", "oracle",
    "cascade", "ssd", "eagle3", "medusa", "eagle3-tree", "block-tree",
)  # fmt: skip


@pytest.mark.parametrize("name", quick(RIGHT, "draft", "sampled-tree", "ngram", "eagle3-tree"))
def test_right_rules_pass(tiny: DecodingEngine, name: str) -> None:
    findings = found(tiny, **LOSSLESS[name])
    assert list(findings) == list(NAMES)
    assert all(findings[name].passed for name in NAMES[:4]), findings


WRONG = {
    "last from p": (mutations.last_from_p, {"drafter": "draft", "rule": "token", "gamma": 3}),
    "last from p, tree": (mutations.last_from_p, {"drafter": "sampled-tree", "shape": (2, 2)}),
    "argmax drafts": (mutations.argmax_drafts, {"drafter": "draft", "rule": "block", "gamma": 3}),
    "reranked": (mutations.reranked, {"drafter": "sampled-tree", "shape": (2, 2)}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_writes_what_the_draft_favours_too_often(
    tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    mutate, settings = WRONG[name]
    mutate(monkeypatch)
    finding = found(tiny, 1500, **settings)[NAMES[3]]
    assert not finding.passed, finding.detail


@pytest.mark.parametrize("name", ["draft", "token", "sampled-tree", "medusa"])
def test_noise_keyed_by_position_is_used_twice(
    tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    mutations.reused_noise(monkeypatch)
    finding = found(tiny, 60, **LOSSLESS[name])[NAMES[0]]
    assert not finding.passed
    assert "used twice" in finding.detail


def test_a_uniform_shared_by_draft_and_verify_is_used_twice(
    tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutations.shared_uniform(monkeypatch)
    assert not found(tiny, 60, **LOSSLESS["token"])[NAMES[0]].passed


@pytest.mark.parametrize("name", ["draft", "sampled-tree", "medusa", "cascade"])
def test_rounded_probabilities_do_not_sum_to_1(
    tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What a text would not show: the probabilities are off by a thousandth."""
    mutations.bf16_q(monkeypatch)
    findings = found(tiny, 60, **LOSSLESS[name])
    assert not findings["sums of probabilities"].passed


def test_greedy_runs_use_no_random_number(tiny: DecodingEngine) -> None:
    used = UsedUniforms()
    settings = Settings.of(drafter="draft", max_new_tokens=8)
    for step in tiny.start_batch([tiny.encode("abcab")], settings, (0,), ends=False).steps():
        used.add(step)
    used.end()
    assert (used.used, used.again) == (0, 0)


def test_the_false_alarms_are_no_more_than_said() -> None:
    """A fair coin for which the draft is right half the time, thousands of times, looked at once at its end."""
    dice = np.random.default_rng(3)
    p_values = []
    for heads in dice.binomial(800, 0.5, size=4000):
        fair = FavouredTokens()
        fair.draws = 800
        fair.written, fair.due, fair.variance = np.array([[heads], [400.0], [200.0]])
        p_values.append(fair.p_value)
    for level in (0.5, 0.1, 0.01):
        assert np.mean(np.array(p_values) <= level) <= level
    assert min(p_values) > FALSE_ALARM


def test_what_would_have_been_found_is_found() -> None:
    off = FavouredTokens()
    off.draws, off.due, off.variance = 3000, np.array([1500.0]), np.array([700.0])
    off.written = off.due + 1.01 * off.draws * off.detectable(FALSE_ALARM)
    assert off.p_value < FALSE_ALARM
    off.written = off.due + 0.5 * off.draws * off.detectable(FALSE_ALARM)
    assert off.p_value > FALSE_ALARM
