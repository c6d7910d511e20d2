"""Comparing drafters and checking one, in the engine. No time is asserted."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import count
from typing import Any, TypeGuard

import pytest

from draftscope.base.progress import Progress
from draftscope.base.steps import said, stoppable
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.measure import check as checks
from draftscope.measure import joint, sampled
from draftscope.measure.check import Checked, checked
from draftscope.measure.findings import Finding, so_far
from draftscope.measure.greedy_checks import TESTS, GreedyTest
from draftscope.measure.joint import along, exact_joint
from draftscope.measure.sampled import Runs
from draftscope.verify.sampling import Sampling
from draftscope_app.doors.decide.compare.compare import ComparedLane, compare

SHORT = {"max_new_tokens": 8, "seed": 2}


def lanes(**drafters: dict[str, Any]) -> dict[str, Settings]:
    return {lane: Settings.of(**(SHORT | {"drafter": lane} | own)) for lane, own in drafters.items()}


def compared(pair: DecodingEngine, chosen: dict[str, Settings], repeats: int) -> list[ComparedLane]:
    return [event for event in compare(pair, "abc", chosen, repeats) if isinstance(event, ComparedLane)]


def test_runs_take_turns_and_the_last_event_of_a_lane_holds_all_of_it(pair: DecodingEngine) -> None:
    events = compared(pair, lanes(plain={}, draft={}, ngram={}), 2)
    assert [event.lane for event in events] == ["plain", "draft", "ngram"] * 2
    assert [len(event.seconds) for event in events] == [1] * 3 + [2] * 3
    plain, draft, ngram = events[3:]
    assert (plain.tokens, plain.rounds, plain.draft_ms) == (8, 8, None)
    assert draft.tokens == 8 > draft.rounds - 1
    assert draft.draft_ms is not None and ngram.draft_ms is None
    decoded = pair.decode("abc", "draft", **SHORT).round_events
    assert draft.drafted == sum(len(event.nodes) for event in decoded)
    assert (plain.drafted, plain.idle, ngram.idle) == (0, "", "no earlier text repeats")
    assert draft.rounds == len(decoded)


def test_what_is_lossy_or_synthetic_says_so(pair: DecodingEngine) -> None:
    chosen = lanes(draft={"rule": "typical", "temperature": 1.0}, oracle={}, ngram={"rule": "typical"})
    found = {event.lane: event for event in compared(pair, chosen, 1)}
    assert {lane: (event.exact, event.synthetic) for lane, event in found.items()} == {
        "draft": (False, False), "oracle": (True, True), "ngram": (True, False),
    }  # fmt: skip
    assert found["draft"].rule == "typical"


def test_a_drafter_that_cannot_run_says_why_once_and_the_others_go_on(pair: DecodingEngine) -> None:
    chosen = lanes(plain={}, **{"early-exit": {"exit_layer": 40}})
    events = compared(pair, chosen, 2)
    refused = [event for event in events if event.refused]
    assert len(refused) == 1
    assert "exit_layer = 40" in refused[0].refused
    assert [event.lane for event in events if not event.refused] == ["plain", "plain"]


def test_a_comparison_is_cancelled_within_a_round(pair: DecodingEngine) -> None:
    asked = itertools.count()
    steps = list(stoppable(compare(pair, "abc", lanes(plain={}, draft={}), 3), lambda: next(asked) >= 10))
    assert [event.lane for event in steps if isinstance(event, ComparedLane)] == [
        "plain"
    ]  # its 8 rounds, and none of the next run was finished
    assert len(steps) == 10


def test_a_comparison_changes_no_token_and_is_read_back(pair: DecodingEngine) -> None:
    (event,) = compared(pair, lanes(draft={}), 1)
    assert ComparedLane.model_validate_json(event.model_dump_json(exclude_none=True)) == event


# The check.


@pytest.fixture(scope="module")
def told(tiny: DecodingEngine) -> tuple[list[Checked], int]:
    """A check whose clock goes on by a second each time that it is read, and how long it took."""
    clock = count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "monotonic", lambda: float(next(clock)))
        patch.setattr(checks, "PROGRESS_S", 0.0)
        return list(said(checked(tiny, Settings.of(drafter="draft", rule="token"), samples=600))), next(clock)


def test_a_check_is_told_as_it_goes_and_concludes_at_its_end(told: tuple[list[Checked], int]) -> None:
    events, _ = told
    found = [len(event.findings) for event in events]
    assert found == sorted(found)
    assert sorted(set(found)) == list(range(events[0].tests + 1))
    assert all(not event.verdict for event in events[:-1])
    last = events[-1]
    assert last.verdict == "The rule is proved; on this pair no difference was found."
    assert (last.drafter, last.rule, last.exact, last.samples) == ("draft", "token", True, 600)
    assert last.models == ["tiny-target", "tiny-draft"]


def test_a_check_says_how_long_it_still_takes(told: tuple[list[Checked], int]) -> None:
    events, took = told
    runs = [event for event in events if event.doing.startswith("joint") and len(event.findings) == 5]
    shares = [event.share for event in runs if event.share]
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.3
    assert shares[-1] == pytest.approx(1.0)
    left = [event.seconds_left for event in runs if event.share >= checks.MIN_SHARE]
    assert left[-1] == pytest.approx(0.0, abs=1e-6)
    done = [re.fullmatch(r"joint distribution, ([\d,]+) of ([\d,]+) samples", event.doing) for event in runs]
    counts = [tuple(int(number.replace(",", "")) for number in each.groups()) for each in done if each]
    assert len(counts) == len(runs) and counts == sorted(counts) and len({of for _, of in counts}) == 1
    assert counts[0][0] < counts[0][1] / 10 and counts[-1][0] == counts[-1][1] > 600
    assert all(each is not None and 0 <= each < 20 * took for each in left)
    parts = [event.doing.partition(", ") for event in events if len(event.findings) < 5 and event.doing]
    assert list(dict.fromkeys(test for test, _, _ in parts)) == [test.__name__.replace("_", " ") for test in TESTS]
    texts = [part for test, _, part in parts if test == "greedy identity" and part]
    assert texts[0] == "plain decoding's text 1 of 4" and texts[-1] == "text 4 of 4"


def test_a_check_says_early_what_it_has_seen(told: tuple[list[Checked], int]) -> None:
    """The first verdict came after minutes without a word."""
    events, _ = told
    for event in events:
        done, tests = len(event.findings), event.tests
        between = f"so far no difference, {done} of {tests} tests done" if 0 < done < tests else ""
        assert event.so_far == between
    wrong = [Finding("drafted tokens", False, ""), Finding("sums", True, "")]
    assert so_far(wrong, 5) == "so far a difference or an error in drafted tokens, 2 of 5 tests done"
    assert so_far(wrong, 2) == so_far([], 2) == ""


@pytest.mark.filterwarnings("error::draftscope.base.errors.UnreadWarning")
def test_a_check_does_not_warn_of_settings_that_it_gave_itself(tiny: DecodingEngine) -> None:
    """It printed "'plain' does not read typed." to its user."""
    for drafter in ("ngram", "typed"):
        steps = checks.steps(tiny, drafter, 500, prompts=("ab",))
        findings = [step for step in itertools.takewhile(lambda step: not is_sampled(step), steps) if is_finding(step)]
        assert len(findings) == 5 and not any(finding.error for finding in findings)


def is_finding(step: Progress | Finding) -> TypeGuard[Finding]:
    return isinstance(step, Finding)


def is_sampled(step: Progress | Finding) -> bool:
    return isinstance(step, Progress) and step.doing.startswith("joint")


def test_nothing_is_computed_after_the_time_left_has_come_to_its_end(
    tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target's own distribution was computed once more after the runs, on a busy machine for 15 seconds."""
    asked, exact = 0, joint.exact_joint

    def counted(*given: Any, **more: Any) -> Any:
        nonlocal asked
        asked += 1
        return exact(*given, **more)

    monkeypatch.setattr(joint, "exact_joint", counted)
    settings = Settings.of(drafter="draft", rule="token", gamma=3, temperature=1.0, top_k=3)
    runs = sampled.run_on_active_texts(GreedyTest(tiny, "draft", prompts=("ab",)), tiny, settings, 64)
    before = [asked for each in runs if isinstance(each, Runs)]
    assert 0 < before[-1] == asked


def test_the_time_left_counts_the_rules_that_are_still_to_be_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 2.0, 5.0])
    monkeypatch.setattr(checks, "monotonic", lambda: next(clock))
    told = list(checks._timed(iter([Runs(10, 40), Runs(20, 40)]), "runs", 1))
    assert [each.seconds_left for each in told if isinstance(each, Progress)] == [2 / 0.25 * 1.75, 5 / 0.5 * 1.5]


def test_the_check_of_a_lossy_rule_tells_how_far_and_the_kinder_the_further(
    tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "TESTS", ())  # those that compare greedy texts

    def distribution(lenience: float) -> dict[str, Any]:
        """Tested at temperature 1, whatever the shown run had."""
        settings = Settings.of(drafter="draft", rule="lenient", lenience=lenience, temperature=0.0)
        last = list(said(checked(tiny, settings, samples=600)))[-1]
        assert not last.exact and "lossy by design" in last.verdict
        return last.findings[-1]

    strict, kind = distribution(1.0), distribution(0.05)
    assert kind["total_variation"] > 0.05 > 0
    assert kind["total_variation"] > strict["total_variation"]
    assert kind["kl"] > 0
    assert kind["p_value"] is None


def test_a_drafter_with_a_rule_of_its_own_is_checked_by_it(tiny: DecodingEngine) -> None:
    last = list(said(checked(tiny, Settings.of(drafter="ngram", rule="typical"), samples=600)))[-1]
    assert (last.rule, last.exact) == ("", True)
    assert last.verdict


def test_a_check_ends_within_a_round_when_it_is_stopped(tiny: DecodingEngine) -> None:
    told: list[Checked | None] = []
    steps = checked(tiny, Settings.of(drafter="ngram"), samples=600)
    tested = itertools.count()
    for event in stoppable(steps, lambda: told[-1:] != [] and len(latest(told)) == 5 and next(tested) >= 2):
        told.append(event)
    assert len(latest(told)) == 5 and next(tested) == 3  # stopped two rounds into the distribution test


def latest(told: Sequence[Checked | None]) -> list[dict[str, Any]]:
    return next(event.findings for event in reversed(told) if event is not None)


def test_where_rounding_decides_what_top_k_keeps_the_prefix_is_one_outcome(tiny: DecodingEngine) -> None:
    """In 16 bits two right forwards may keep different tokens there; the shorter outcomes weigh what theirs do."""
    prompt, sampling = tiny.encode("abcab"), Sampling(top_k=3)
    whole = exact_joint(tiny, prompt, sampling, 3)
    gaps = [0.0, 0.02, 0.1, math.inf]
    shortened = [exact_joint(tiny, prompt, sampling, 3, unclear=gap) for gap in gaps]
    assert shortened[0] == whole
    assert shortened[-1] == {(): 1.0}
    assert len({len(joint) for joint in shortened}) > 2
    for outcomes in shortened:
        assert sum(outcomes.values()) == pytest.approx(1.0)
        for prefix, mass in outcomes.items():
            below = sum(p for outcome, p in whole.items() if outcome[: len(prefix)] == prefix)
            assert mass == pytest.approx(below)
    seen = Counter({(0, 1, 2): 3, (0, 1, 3): 2, (4, 0, 0): 1})
    assert along(seen, {(0, 1): 0.5, (4, 0, 0): 0.5}) == {(0, 1): 5, (4, 0, 0): 1}


def test_what_drafts_through_text_is_named_as_a_run_names_it(through_text: DecodingEngine) -> None:
    settings = Settings.of(drafter="draft", max_new_tokens=4)
    compared = [e.drafter for e in compare(through_text, "abcabc", {"a": settings}, 1) if isinstance(e, ComparedLane)]
    assert set(compared) == {"slem"}
