"""Every seeded fault is convicted by its tensor, and clean recordings are acquitted as often as is promised."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from draftscope.servers.inside.decisions import FALSE_ALARM, _fresh, examine
from tests.doors.servers.inside.made_up import Fault, recording

CLEAN, CHANCE = 200, 0.05


def first_wrong(fault: Fault, temperature: float = 1.0) -> str | None:
    findings = examine(recording(1, 150, fault, temperature))
    return next((each.tensor for each in findings if each.fault), None)


@pytest.mark.parametrize(
    ("fault", "tensor"),
    [
        ("temperature of drafted rows", "temperature of drafted rows"),
        ("top-k left out", "top-k of p"),
        ("not a number", "temperature of drafted rows"),
        ("q before truncation", "q"),
        ("u reused", "u, used once"),
        ("accepts too often", "verdict"),
        ("residual not renormalised", "correction"),
        ("correction from p", "correction"),
        ("bonus from q", "bonus"),
    ],
)
def test_a_seeded_fault_is_named_by_the_first_tensor_that_it_spoils(fault: Fault, tensor: str) -> None:
    assert first_wrong(fault) == tensor


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_a_clean_recording_is_acquitted_and_every_tensor_seen(temperature: float) -> None:
    findings = examine(recording(2, 150, temperature=temperature))
    assert not [each for each in findings if each.fault]
    unseen = {each.tensor for each in findings if not each.tested}
    if temperature:
        assert unseen == {"greedy token"}
    else:
        assert unseen == {"top-k of p", "sum of q", "q", "u", "u, used once", "correction", "bonus"}


@pytest.mark.slow
def test_a_false_alarm_is_as_rare_as_it_is_said() -> None:
    """200 clean recordings: none is convicted at 1e-6, and at 5% no more than chance allows (1e-4)."""
    clean = [recording(seed, 12) for seed in range(CLEAN)]
    alarms = [rounds for rounds in clean if any(each.fault for each in examine(rounds, CHANCE))]
    assert stats.binom.sf(len(alarms) - 1, CLEAN, CHANCE) > 1e-4
    assert not any(each.fault for rounds in alarms for each in examine(rounds, FALSE_ALARM))


@pytest.mark.parametrize("scale", [2.0**-24, np.float32(4.6566127342e-10)], ids=["a grid of 24 bits", "Triton's"])
def test_random_numbers_of_32_bits_may_be_equal_by_chance(scale: float) -> None:
    """Some of 20,000 are, while half of them again are too many."""
    drawn = np.random.default_rng(1).integers(0, round(1 / scale), 20_000).astype(np.float32) * np.float32(scale)
    assert len(set(drawn)) < len(drawn)
    assert not _fresh("u", drawn.tolist(), 1e-6).fault
    assert _fresh("u", [*drawn, *drawn[::2]], 1e-6).fault


def test_a_tie_of_logits_at_temperature_0_may_be_settled_either_way() -> None:
    """As bf16 logits have: the drafted token is as likely as the one that was written instead."""
    rounds = recording(2, 150, temperature=0.0)
    token = next(token for each in rounds for token in each.drafted if token.accepted is False)
    token.p = token.target.top[0][1]
    token.target.top[1] = (token.token, token.p, token.target.top[0][2])
    token.target.whole = None  # the rest of the row is as it was
    assert not [each for each in examine(rounds) if each.fault]


def test_top_k_may_keep_less_than_top_p() -> None:
    """Where both are set, the kept mass is below top-p, and p is divided by it."""
    rounds = recording(2, 150)
    for each in rounds:
        each.top_p = 0.999
    assert not [each for each in examine(rounds) if each.fault]
