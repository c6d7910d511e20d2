"""The oracle has the set acceptance rate at any temperature, and the text is still the target's."""

from __future__ import annotations

import math

import pytest
import torch

from draftscope.decode import open_session
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters import oracle
from draftscope.drafters.options import OracleOptions
from draftscope.drafters.settings import Settings
from draftscope.measure.findings import FALSE_ALARM
from draftscope.verify.uniforms import Streams
from tests.decode.test_distribution import caught, distribution


def fates(engine: DecodingEngine, temperature: float, alpha: float, runs: int = 6) -> tuple[int, int]:
    """Tokens verified and accepted, of as many runs of 200 tokens, decoded together."""
    settings = Settings.of(
        drafter="oracle", gamma=3, oracle_alpha=alpha, temperature=temperature, max_new_tokens=200, seed=1
    )
    verified = accepted = 0
    for step in engine.start_batch([engine.encode("abcab")] * runs, settings, tuple(range(runs))).steps():
        drafted = (~step.tree.never_accepted).sum(1).tolist()
        for path, count, alive in zip(step.paths, drafted, step.live, strict=True):
            verified += min(len(path) + 1, count) * alive  # the first that was rejected is the last that was verified
            accepted += len(path) * alive
    return verified, accepted


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("alpha", [0.3, 0.8])
def test_a_verified_token_is_accepted_with_probability_alpha(
    tiny: DecodingEngine, temperature: float, alpha: float
) -> None:
    verified, accepted = fates(tiny, temperature, alpha)
    assert verified > 500
    bound = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * verified))  # Hoeffding, two-sided
    assert abs(accepted / verified - alpha) < bound


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_curve_is_replayed_by_position(tiny: DecodingEngine, temperature: float) -> None:
    """Each position's share of those that were verified there; beyond the curve its last value."""
    curve = (0.9, 0.4)
    own = {"gamma": 3, "oracle_curve": curve, "temperature": temperature, "max_new_tokens": 400, "seed": 1}
    rounds = [step for step in tiny.decode("abcab", "oracle", **own).round_events if step.drafted == 3]
    for place, alpha in enumerate((0.9, 0.4, 0.4)):
        reached = [step.accepted > place for step in rounds if step.accepted >= place]
        bound = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * len(reached)))
        assert abs(sum(reached) / len(reached) - alpha) < bound, (place, len(reached))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_edges_are_always_and_never(tiny: DecodingEngine, temperature: float) -> None:
    verified, accepted = fates(tiny, temperature, 1.0, runs=1)
    assert verified == accepted > 0
    assert fates(tiny, temperature, 0.0, runs=1)[1] == 0


def test_it_is_marked_as_synthetic(pair: DecodingEngine) -> None:
    run = pair.decode("ab", "oracle", max_new_tokens=8)
    start = run.events[0]
    assert (start.synthetic, start.exact) == (True, True)
    assert not pair.decode("ab", max_new_tokens=2).events[0].synthetic
    assert {node.origin for event in run.round_events for node in event.nodes} <= {"oracle", "oracle, made wrong"}
    assert "synthetic" in next(info.title for info in pair.drafters() if info.name == "oracle")


def test_the_target_continuation_is_not_timed_and_not_counted(pair: DecodingEngine) -> None:
    before = pair.target.counter.forwards
    run = pair.start("ab", Settings.of(drafter="oracle", max_new_tokens=16))
    assert run.clock_ms == 0
    assert pair.target.counter.forwards == before


def test_it_drafts_nothing_once_the_text_differs(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    right = open_session.target_continuation
    monkeypatch.setattr(
        open_session, "target_continuation", lambda *given: [[*row[:6], row[6] + 1, *row[7:]] for row in right(*given)]
    )
    want = pair.decode("abcabc", "plain", max_new_tokens=20).token_ids
    run = pair.decode("abcabc", "oracle", gamma=2, oracle_alpha=1.0, max_new_tokens=20)
    assert run.token_ids == want
    assert run.round_events[0].drafted == 2
    assert run.round_events[-1].drafted == 0
    assert len(run.round_events) > 10


def test_wrong_tokens_chosen_by_the_targets_own_uniforms_are_caught(
    tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of tokens that a round draws must not depend on which tokens they are."""
    right = Streams.uniforms

    def shared(self: Streams, *key: object) -> object:
        uniforms = right(self, *key)  # type: ignore[arg-type]
        return type(uniforms)(uniforms.last[:, 1:], uniforms.accept, uniforms.last)

    monkeypatch.setattr(Streams, "uniforms", shared)
    assert caught(distribution(tiny, drafter="oracle", gamma=3, oracle_alpha=0.5))


def test_uniforms_to_come_are_those_of_the_rounds() -> None:
    streams = Streams(3, (0, 5))
    alpha = [0.9, 0.3]
    found = oracle.uniforms_to_come(streams, 2, torch.tensor(alpha, dtype=torch.float64), 7)
    for b in range(2):
        want: list[float] = []
        for index in range(7):
            uniforms = streams.uniforms(index, 2)
            stands = next((i for i, uniform in enumerate(uniforms.draft[b].tolist()) if uniform >= alpha[i]), 2)
            want += uniforms.last[b].tolist()[: stands + 1]
        assert found[b].tolist() == want[:7]


@pytest.mark.parametrize(
    ("given", "expected"),
    [((0.9, 0.5), (0.9, 0.5, 0.5, 0.5)), ((0.9, 0.8, 0.7, 0.6, 0.5), (0.9, 0.8, 0.7, 0.6)), ((), (0.3,) * 4)],
)
def test_a_curve_begins_at_the_first_position(given: tuple[float, ...], expected: tuple[float, ...]) -> None:
    assert OracleOptions(gamma=4, oracle_alpha=0.3, oracle_curve=given).curve == expected


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_each_position_is_right_or_wrong_by_its_own_alpha(tiny: DecodingEngine, temperature: float) -> None:
    """Nothing is left to chance: the first token is always right, the second never, the third never reached."""
    own = {"gamma": 3, "oracle_curve": (1.0, 0.0, 1.0), "temperature": temperature, "max_new_tokens": 40, "seed": 1}
    rounds = [step for step in tiny.decode("abcab", "oracle", **own).round_events if step.drafted == 3]
    assert len(rounds) > 10 and {step.accepted for step in rounds} == {1}
