"""Acceptance over time in both languages: one table of cases."""

from __future__ import annotations

from typing import Any

import pytest

from draftscope.log.alarm import NEAR_ALL, NEAR_NOTHING, RecentAcceptance
from draftscope.log.entries import LoggedRound, tally
from draftscope.log.over_time import after_guess, best_length, by_length, windows
from tests.log.test_over_time import made, rounds
from tests.support.node import call

FILES = ["doors/decide/acceptance/over-time.js"]
CASES = {
    "none": [],
    "one": rounds(2),
    "few": rounds(3, 0, 1, 2, 0, 0),
    "all kept": rounds(*[3] * 80),
    "nothing kept": rounds(*[0] * 80),
    "some without a draft": [*rounds(1, 2), *rounds(0, 0, drafted=0), *rounds(4, drafted=5)],
    "dependent": made(1, keeps=0.9, after_refusal=0.4),
    "independent": made(2, keeps=0.6, after_refusal=0.6),
    "a loop at the end": [*made(3, 0.5, 0.5), *rounds(*[8] * 260, drafted=8)],
    "trees": [LoggedRound(round=n, drafted=4, accepted=n % 3, parents=(-1, -1, 0, 2)) for n in range(60)],
}


@pytest.fixture(scope="module")
def in_javascript() -> dict[str, list[Any]]:
    names = ("windows", "afterGuess", "byLength", "alarm")
    shown = {case: [_shown(each) for each in some] for case, some in CASES.items()}
    answers = iter(call(FILES, [(name, [some]) for some in shown.values() for name in names]))
    return {case: [next(answers) for _ in names] for case in CASES}


def _shown(each: LoggedRound) -> dict[str, int]:
    return {"depth": each.levels, "drafted": each.drafted, "accepted": each.accepted}


@pytest.mark.parametrize("case", CASES)
def test_both_say_the_same(case: str, in_javascript: dict[str, list[Any]]) -> None:
    some = CASES[case]
    parts, after, lengths, alarm = in_javascript[case]
    assert parts == [vars(part) for part in windows(some)]
    seen = after_guess(some)
    counts = (seen.kept_after_kept, seen.after_kept, seen.kept_after_refused, seen.after_refused)
    assert (after["ofKept"], after["afterKept"], after["ofRefused"], after["afterRefused"]) == counts
    assert after["z"] == pytest.approx(seen.z) and after["dependent"] == seen.dependent
    assert [(each["length"], each["rounds"]) for each in lengths] == [(e.length, e.rounds) for e in by_length(some)]
    for name, of in (("measured", "measured"), ("byMean", "by_mean")):
        assert [each[name] for each in lengths] == pytest.approx([getattr(each, of) for each in by_length(some)])
    recent = RecentAcceptance()
    for each in some:
        recent.add(tally([each]))
    assert alarm == {NEAR_NOTHING: "nothing", NEAR_ALL: "all", None: None}[recent.alarm]


def test_the_best_length_is_the_same() -> None:
    tokens = [1.5, 2.0, 2.2, 2.25]
    costs = [(0.05, 1.0), (0.2, 1.1), (0.5, 1.0), (0.0, 1.0)]
    assert call(FILES, [("bestLength", [tokens, *each]) for each in costs]) == [
        best_length(tokens, *each) for each in costs
    ]
