"""From runs to rows, on runs written by hand: loops, intervals, predictions, comparisons."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from draftscope.base.text import AddedText
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.round_arrays import STAGES, KeptStep, MeasuredRounds, PartTimes, predict, timed_steps
from draftscope.measure.bench.rows import headlines, rows
from draftscope.measure.bench.runner import BenchRun
from draftscope.measure.bench.statistics import LOOP, bootstrap, repeated_4grams
from draftscope.measure.bench.systems import OWN, PLAIN, Case, Label

DRAFT = Label(OWN, "draft", gamma=4)
LOOPING = [1, 2, 3, 4] * 6
STRAIGHT = list(range(24))


def kept(*stages: float, emitted: tuple[int, ...] = (1,), drafted: int = 0) -> KeptStep:
    """A round that drafted `drafted` tokens for every sequence and emitted some; 0 is a sequence that had ended."""
    return KeptStep(
        nodes=drafted,
        rows=range(len(emitted)),
        stages=dict(zip(STAGES, stages, strict=True)),
        paths=[list(range(max(0, count - 1))) for count in emitted],
        fed=[AddedText(count, "", None) if count else None for count in emitted],
        never_accepted=torch.zeros(len(emitted), drafted, dtype=torch.bool),
        depth=torch.arange(drafted + 1).expand(len(emitted), -1),
    )


def run(label: Label, seconds: float, ids: list[int], repeat: int = 0, **case: Any) -> BenchRun:
    of = {"kind": "story", "number": 0, "prompts": ((1,),), "temperature": 0.0} | case
    return BenchRun(label, Case(**of), repeat, seconds, [ids])


ROUNDS = MeasuredRounds.of([kept(1.0, 7.0, 1.0, 0.5, 0.5)] * len(STRAIGHT))


# prediction


def test_the_prediction_is_tau_over_the_terms_of_a_round() -> None:
    plain = MeasuredRounds.of([kept(0.0, 9.0, 0.5, 0.25, 0.25)] * 5)  # one plain round takes 10 ms
    rounds = MeasuredRounds.of([kept(4.0, 11.0, 0.5, 0.5, 1.0, emitted=(3,), drafted=4)] * 4)
    found = predict(PartTimes(rounds), PartTimes(plain), 12)
    assert (found.tau, found.gamma_c, found.v) == (3, pytest.approx(0.4), pytest.approx(1.1))
    assert found.o == pytest.approx(0.2)
    assert found.ratio == pytest.approx(3 / 1.7)
    assert predict(PartTimes(plain), PartTimes(plain), 12).ratio == pytest.approx(1)


def test_set_up_prefill_and_the_time_between_rounds_are_part_of_a_run() -> None:
    plain = MeasuredRounds.of([kept(0.0, 9.0, 0.5, 0.0, 0.0)._replace(between=0.5)] * 5)  # 10 ms with what is between
    rounds = MeasuredRounds.of([kept(4.0, 11.0, 0.5, 0.5, 1.0, emitted=(3,), drafted=4)._replace(between=3.0)] * 4)
    found = predict(PartTimes(rounds, 60.0), PartTimes(plain, 40.0), 30)
    assert (found.o, found.steady) == (pytest.approx(0.5), pytest.approx(3 / 2))
    assert found.ratio == pytest.approx((40 + 30 * 10) / (60 + 10 * 20))
    assert predict(PartTimes(plain, 40.0), PartTimes(plain, 40.0), 30).ratio == pytest.approx(1)


def test_a_reader_waits_between_rounds_but_not_for_what_the_caller_does(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    session = pair.start_batch([pair.encode("hello")], Settings.of(drafter="plain", max_new_tokens=4), (0,))
    session.prefill()
    steps = list(session.steps())

    def stepping() -> Any:
        nonlocal now
        for step in steps:
            now += 2.0 + sum(step.stages.values())  # 2 ms that no stage has
            yield step

    monkeypatch.setattr("draftscope.measure.bench.round_arrays.perf_counter", lambda: now / 1e3)
    monkeypatch.setattr(session, "steps", stepping)
    found = []
    for _, own in timed_steps(session):
        found.append(own.between)
        now += 50.0
    assert found == pytest.approx([2.0] * len(steps))


def test_stages_are_medians_at_each_width_weighted_by_how_often_it_occurred() -> None:
    narrow = [kept(0.0, value, 0.0, 0.0, 0.0) for value in (1.0, 1.0, 99.0)]
    wide = [kept(2.0, 5.0, 0.0, 0.0, 0.0, drafted=4)]
    found = MeasuredRounds.of(narrow + wide).stage_ms()
    assert found["verify"] == pytest.approx((3 * 1.0 + 5.0) / 4)
    assert found["propose"] == pytest.approx(2.0 / 4)


def test_the_prediction_knows_nothing_of_a_whole_runs_time() -> None:
    fast, slow = (BenchRun(DRAFT, Case("story", 0, ((1,),), 0.0), 0, s, [STRAIGHT], ROUNDS) for s in (0.1, 9.0))
    plain = BenchRun(PLAIN, Case("story", 0, ((1,),), 0.0), 0, 1.0, [STRAIGHT], ROUNDS)
    (_, first), (_, second) = rows([plain, fast]), rows([plain, slow])
    assert first.predicted_ratio == second.predicted_ratio == pytest.approx(1)
    assert first.ratio_to_plain != second.ratio_to_plain


def test_tau_of_a_batch_counts_a_sequence_that_has_ended_as_writing_nothing() -> None:
    rounds = [kept(1, 1, 1, 1, 1, emitted=(4, 2), drafted=3), kept(1, 1, 1, 1, 1, emitted=(0, 2), drafted=3)]
    assert MeasuredRounds.of(rounds).tokens_per_round() == pytest.approx(8 / 2 / 2)
    left = [rounds[0], kept(1, 1, 1, 1, 1, emitted=(2,), drafted=3)._replace(rows=[1])]
    for name in ("emitted", "accepted", "depth"):
        assert getattr(MeasuredRounds.of(left), name).tolist() == getattr(MeasuredRounds.of(rounds), name).tolist()


def test_a_full_batch_is_looked_at_until_its_first_sequence_ends() -> None:
    fast, slow = (kept(ms, 0, 0, 0, 0, emitted=(4, 2), drafted=3) for ms in (100, 200))
    rounds = MeasuredRounds.of([fast, slow, *[kept(999, 0, 0, 0, 0, emitted=(0, 2), drafted=3)] * 2])
    assert rounds.tokens_per_s_while_full() == pytest.approx(12 / 0.3)
    plain = MeasuredRounds.of([kept(100, 0, 0, 0, 0, emitted=(1, 1))] * 8)
    ids = [[1] * 8, [2] * 8]
    runs = [
        BenchRun(label, Case("story", 0, ((1,), (2,)), 1.0), 0, 1.0, ids, own)
        for label, own in ((PLAIN, plain), (DRAFT, rounds))
    ]
    assert [row.ratio_while_full.median for row in rows(runs)] == pytest.approx([1, 2])
    assert rows([run(PLAIN, 1.0, STRAIGHT)])[0].ratio_while_full is None


def test_acceptance_length_counts_rounds_that_drafted() -> None:
    rounds = [kept(1, 1, 1, 1, 1, emitted=(4, 1), drafted=3), kept(1, 1, 1, 1, 1, emitted=(0, 1), drafted=3)]
    assert MeasuredRounds.of(rounds).mean_acceptance_length() == pytest.approx(1 + 3 / 3)
    assert MeasuredRounds.of([kept(1, 1, 1, 1, 1)]).mean_acceptance_length() == 1


def test_what_was_accepted_but_cut_off_counts_nowhere() -> None:
    cut = kept(1, 1, 1, 1, 1, emitted=(2,), drafted=4)._replace(paths=[[0, 1, 2]])
    assert MeasuredRounds.of([cut]).accepted.tolist() == [[2]]


def test_a_draft_of_nothing_but_never_accepted_is_none() -> None:
    never_accepted = kept(1, 1, 1, 1, 1, drafted=2)._replace(never_accepted=torch.ones(1, 2, dtype=torch.bool))
    assert MeasuredRounds.of([never_accepted]).depth.tolist() == [[0]]


@pytest.mark.parametrize(
    ("drafter", "values"), [("draft", {"gamma": 3}), ("ngram", {}), ("topk-tree", {"shape": (2, 1)})]
)
def test_acceptance_length_is_that_of_the_trace(pair: DecodingEngine, drafter: str, values: dict[str, Any]) -> None:
    text = "hello hello hello"
    folded = pair.decode(text, drafter, max_new_tokens=24, **values).metrics
    settings = Settings.of(drafter=drafter, max_new_tokens=24, **values)
    session = pair.start_batch([pair.encode(text)], settings, (0,))
    rounds = MeasuredRounds.of([KeptStep.of(step) for step in session.steps()])
    assert rounds.mean_acceptance_length() == pytest.approx(folded.mean_acceptance_length)
    assert rounds.tokens_per_round() == pytest.approx(folded.tokens_per_round)
    assert rounds.conditional_alpha() == pytest.approx(folded.conditional_acceptance_per_position)


def test_alpha_counts_only_rounds_that_reached_and_drafted_a_position() -> None:
    rounds = [kept(1, 1, 1, 1, 1, emitted=(n,), drafted=d) for n, d in ((3, 2), (2, 2), (1, 2), (2, 1))]
    assert MeasuredRounds.of(rounds).conditional_alpha() == [3 / 4, 1 / 2]
    cut = kept(1, 1, 1, 1, 1, emitted=(2,), drafted=3)._replace(paths=[[0, 1, 2]])  # nobody saw a third token
    assert MeasuredRounds.of([cut]).conditional_alpha() == [1, 1, None]


# time a token


def test_a_rounds_time_is_shared_by_the_tokens_it_wrote() -> None:
    rounds = [kept(0, 8, 0, 0, 0, emitted=(4,), drafted=3), kept(0, 4, 0, 0, 0, emitted=(4,), drafted=3)]
    assert MeasuredRounds.of(rounds).ms_per_token(8) == [2, 2, 2, 2, 1, 1, 1, 1]
    assert MeasuredRounds.of(rounds).ms_per_token(2) == [2, 1]
    ragged = [kept(0, 3, 0, 0, 0, emitted=(2, 1)), kept(0, 3, 0, 0, 0, emitted=(0, 1))]
    assert MeasuredRounds.of(ragged).ms_per_token(2) == [1, 2]


def test_the_gaps_of_a_reader_are_a_rounds_time_and_then_nothing() -> None:
    rounds = [kept(0, 8, 0, 0, 0, emitted=(4,), drafted=3), kept(0, 4, 0, 0, 0, emitted=(1,), drafted=3)]
    assert MeasuredRounds.of(rounds).gaps().tolist() == [8, 0, 0, 0, 4]
    found = MeasuredRounds.of(rounds).gap_ms()
    assert found["p50"] == 0 and found["p99"] == pytest.approx(7.84) and found["sd"] == pytest.approx(3.2)


def test_a_reader_also_waits_between_the_stages() -> None:
    """3 ms beside each round: a part of the gaps, of a token's time, and of the time of a full batch."""
    steps = [kept(0, 8, 0, 0, 0, emitted=(n,), drafted=3)._replace(between=3.0) for n in (4, 1)]
    rounds = MeasuredRounds.of(steps)
    assert rounds.gaps().tolist() == [11, 0, 0, 0, 11]
    assert rounds.ms_per_token(5) == [11 / 4] * 4 + [11]
    assert rounds.tokens_per_s_while_full() == pytest.approx(5 / 0.022)


def test_a_row_has_the_gaps_of_its_own_runs_and_a_batch_has_none() -> None:
    """Repeats of 4 and 2 ms a round: eight tokens of two rounds, of which each writes four."""
    plain = MeasuredRounds.of([kept(0, 1, 0, 0, 0)] * 8)
    own = [MeasuredRounds.of([kept(0, ms, 0, 0, 0, emitted=(4,), drafted=3)] * 2) for ms in (4.0, 2.0)]
    case, ids = Case("story", 0, ((1,),), 0.0), [list(range(8))]
    runs = [
        BenchRun(label, case, repeat, 1.0, ids, rounds)
        for repeat, draft in enumerate(own)
        for label, rounds in ((PLAIN, plain), (DRAFT, draft))
    ]
    found = {row.drafter: row.gap_ms for row in rows(runs)}
    assert found["plain"] == {"p50": 1.0, "p99": 1.0, "sd": 0.0}
    assert found["draft"] == MeasuredRounds.joined(own).gap_ms() and found["draft"]["p50"] == 0
    assert found["draft"]["p99"] == pytest.approx(4.0)
    two, both = replace(case, prompts=((1,), (2,))), MeasuredRounds.of([kept(0, 1, 0, 0, 0, emitted=(1, 1))] * 8)
    assert [row.gap_ms for row in rows([BenchRun(PLAIN, two, 0, 1.0, ids * 2, both)])] == [{}]


# statistics


@hypothesis_settings(deadline=None)  # the first call imports SciPy
@given(st.lists(st.lists(st.floats(0.01, 100), min_size=1, max_size=9), min_size=1, max_size=5))
def test_an_interval_is_always_the_same_and_holds_its_median(groups: list[list[float]]) -> None:
    found = bootstrap(groups)
    assert found == bootstrap(groups)
    assert found.low <= found.median <= found.high
    assert found.median == pytest.approx(median(median(group) for group in groups))
    assert min(map(min, groups)) <= found.low
    assert found.high <= max(map(max, groups))


def test_an_interval_narrows_with_more_of_the_same() -> None:
    few, many = bootstrap([[1.0, 2.0, 3.0]]), bootstrap([[1.0, 2.0, 3.0] * 30])
    assert (few.low, few.high) == (1, 3)
    assert many.high - many.low < few.high - few.low


def test_loops_are_shares_of_repeated_4grams() -> None:
    assert repeated_4grams(STRAIGHT) == 0
    assert repeated_4grams(LOOPING) == pytest.approx(1 - 4 / 21)
    assert repeated_4grams([1, 2, 3]) == 0


# rows and headlines


def test_a_ratio_is_taken_within_the_same_repeat_of_the_same_prompt() -> None:
    runs = [
        run(PLAIN, 1.0, STRAIGHT, 0), run(DRAFT, 0.5, STRAIGHT, 0),
        run(PLAIN, 9.0, STRAIGHT, 1), run(DRAFT, 3.0, STRAIGHT, 1),
        run(PLAIN, 1.0, STRAIGHT, 0, number=1), run(DRAFT, 0.25, STRAIGHT, 0, number=1),
    ]  # fmt: skip
    plain, draft = rows(runs)
    assert plain.ratio_to_plain.median == 1
    assert (draft.ratio_to_plain.low, draft.ratio_to_plain.median, draft.ratio_to_plain.high) == (2, 3, 4)
    assert draft.tokens_per_s == pytest.approx(24 / 0.5)
    assert draft.seconds == [0.5, 3.0, 0.25]


def test_a_run_without_plain_beside_it_is_in_no_row() -> None:
    runs = [run(PLAIN, 1.0, STRAIGHT, 0), run(DRAFT, 0.5, STRAIGHT, 0), run(DRAFT, 0.5, STRAIGHT, 1)]
    assert [row.runs for row in rows(runs)] == [1, 1]


def test_the_headline_leaves_loops_out_and_counts_them() -> None:
    runs = [
        run(PLAIN, 1.0, STRAIGHT), run(DRAFT, 0.5, STRAIGHT),
        run(PLAIN, 1.0, LOOPING, kind="verse"), run(DRAFT, 0.1, LOOPING, kind="verse"),
    ]  # fmt: skip
    headline = next(line for line in headlines(runs) if line.name == "draft, gamma 4")
    assert headline.ratio_to_plain is not None
    assert headline.ratio_to_plain.median == 2
    assert (headline.kinds, headline.of_kinds, headline.looping, headline.runs) == (1, 2, 1, 2)
    looped = next(row for row in rows(runs) if (row.drafter, row.kind) == ("draft", "verse"))
    assert (looped.looping, looped.ratio_to_plain.median) == (1, 10)
    assert looped.repeated_4grams > LOOP


@pytest.mark.parametrize(("ours", "plains"), [(LOOPING, STRAIGHT), (STRAIGHT, LOOPING)])
def test_a_loop_in_either_text_leaves_the_run_out_and_none_left_gives_no_number(
    ours: list[int], plains: list[int]
) -> None:
    runs = [run(PLAIN, 1.0, plains, temperature=1.0), run(DRAFT, 0.5, ours, temperature=1.0)]
    headline = headlines(runs)[1]
    assert headline.ratio_to_plain is None
    assert (headline.kinds, headline.looping) == (0, 1)


def test_tokens_are_compared_with_plains() -> None:
    other = [*STRAIGHT[:7], 99, *STRAIGHT[8:]]
    runs = [
        run(PLAIN, 1.0, STRAIGHT), run(DRAFT, 1.0, STRAIGHT),
        run(PLAIN, 1.0, STRAIGHT, 1), run(DRAFT, 1.0, other, 1),
    ]  # fmt: skip
    plain, draft = rows(runs)
    assert (plain.tokens_vs_plain, plain.equal_runs) == ("equal", 2)
    assert (draft.tokens_vs_plain, draft.equal_runs) == ("differs at 7", 1)
    sampled = rows([run(PLAIN, 1.0, STRAIGHT, temperature=0.5), run(DRAFT, 1.0, other, temperature=0.5)])[1]
    assert (sampled.tokens_vs_plain, sampled.equal_runs) == ("sampled", None)


def test_cells_do_not_mix() -> None:
    two = {"prompts": ((1,), (1,))}
    runs = [run(PLAIN, 1.0, STRAIGHT), run(DRAFT, 0.5, STRAIGHT), run(PLAIN, 1.0, STRAIGHT, context=8)]
    runs += [BenchRun(PLAIN, Case("story", 0, temperature=0.0, **two), 0, 1.0, [STRAIGHT, STRAIGHT])]
    found = rows(runs)
    assert [(row.name, row.batch, row.context) for row in found] == [
        ("plain", 1, None),
        ("draft, gamma 4", 1, None),
        ("plain", 1, 8),
        ("plain", 2, None),
    ]
    assert found[-1].tokens_per_s == pytest.approx(48)
