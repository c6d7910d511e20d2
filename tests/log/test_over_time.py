"""Acceptance over time, of a log."""

from __future__ import annotations

import random

import pytest

from draftscope.log.entries import LoggedRound
from draftscope.log.over_time import after_guess, best_length, by_length, guesses, windows


def rounds(*accepted: int, drafted: int = 3) -> list[LoggedRound]:
    return [LoggedRound(round=number, drafted=drafted, accepted=kept) for number, kept in enumerate(accepted)]


def made(seed: int, keeps: float, after_refusal: float, count: int = 400) -> list[LoggedRound]:
    """Rounds whose first guess is kept less often than the others."""
    dice, some = random.Random(seed), []
    for number in range(count):
        kept = 0
        while kept < 4 and dice.random() < (keeps if kept else after_refusal):
            kept += 1
        some.append(LoggedRound(round=number, drafted=4, accepted=kept))
    return some


def test_windows_hold_every_round_once() -> None:
    parts = windows(rounds(*[1] * 50), most=24)
    assert [part.first for part in parts] == list(range(0, 50, 3))
    assert sum(part.rounds for part in parts) == 50 and sum(part.drafted for part in parts) == 150
    assert windows([]) == []


def test_a_guess_that_was_never_judged_is_none() -> None:
    assert guesses(rounds(3, 0, 1)) == [True, True, True, False, True, False]
    seen = after_guess(rounds(3, 0, 1))
    assert (seen.kept_after_kept, seen.after_kept, seen.kept_after_refused, seen.after_refused) == (2, 4, 1, 1)


def test_in_a_tree_a_depth_is_a_guess() -> None:
    tree = LoggedRound(round=0, drafted=3, accepted=1, parents=(-1, -1, 0))
    assert guesses([tree]) == [True, False]


@pytest.mark.parametrize("seed", range(5))
def test_guesses_that_depend_are_seen(seed: int) -> None:
    assert after_guess(made(seed, keeps=0.9, after_refusal=0.5)).dependent
    assert not after_guess(made(seed, keeps=0.7, after_refusal=0.7)).dependent


def test_few_guesses_say_nothing() -> None:
    assert after_guess(rounds(3, 0, 3, 0)).z == 0
    assert after_guess([]).z == 0 and after_guess(rounds(*[3] * 40)).z == 0


def test_lengths_are_measured_and_as_the_mean_says() -> None:
    lengths = by_length(rounds(2, 0, drafted=2))
    assert [each.measured for each in lengths] == [1.5, 2.0]
    assert [each.by_mean for each in lengths] == pytest.approx([1 + 2 / 3, 1 + 2 / 3 + 4 / 9])  # 2 of 3 are kept
    assert by_length([]) == []


def test_a_length_counts_only_rounds_that_drafted_it() -> None:
    some = [*rounds(1, drafted=1), *rounds(3, drafted=3)]
    assert [(each.length, each.rounds, each.measured) for each in by_length(some)] == [(1, 2, 2), (2, 1, 3), (3, 1, 4)]


def test_the_best_length_is_not_the_means() -> None:
    """Texts that come in stretches: by the mean of .5 a guess, one token pays best; in truth four do."""
    lengths = by_length(rounds(*[4, 0, 0, 0, 0] * 20, drafted=4))
    by_mean = best_length([each.by_mean for each in lengths], step=0.2, check=1.0)
    assert best_length([each.measured for each in lengths], step=0.1, check=1.0) == 4 and by_mean == 1
