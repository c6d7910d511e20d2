"""Advice from made-up costs and acceptance: it equals brute force, and break-even values break even."""

from __future__ import annotations

import json

import numpy as np
import pytest
from transformers import GenerationConfig

from draftscope.advise import limits, sentences, servers
from draftscope.advise.advice_verdict import AdviceDecision, AtTemperature, Measured, Verdict, decide, prompts_needed
from draftscope.advise.candidates import GAMMAS, SHAPES, WIDEST, Candidate, implied, sizes_of
from draftscope.advise.observed import Observed, PromptRounds, conditional_alpha, tau_interval, typed
from draftscope.advise.question import Objective, Question
from draftscope.advise.round_costs import CalibratedCosts, RoundCosts, Timed, TypedCosts, calibrated_as
from draftscope.advise.simulated_answers import finish_times
from draftscope.advise.speed_model import PrefillTimes, best_by_drafter, predict, round_cost, steady_ratio
from draftscope.base.costs import alpha_of
from draftscope.base.errors import DraftscopeError
from draftscope.drafters import find
from draftscope.measure.bench.statistics import Interval
from draftscope.servers.programs.program import ScheduleRange
from tests.support.models import made_calibration

NO_PREFILL = PrefillTimes()


def chains(alpha: float, drafter: str = "draft") -> dict[Candidate, Observed]:
    return {Candidate(drafter, gamma): typed([alpha], gamma) for gamma in GAMMAS}


def tau_of(alpha: float, gamma: int) -> float:
    return sum(alpha**k for k in range(gamma + 1))


def rounds(accepted: list[int], nodes: int = 4) -> PromptRounds:
    return PromptRounds(np.array(accepted), np.full(len(accepted), nodes), np.full(len(accepted), nodes))


# acceptance


@pytest.mark.parametrize("alpha", [0.2, 0.61, 0.9])
@pytest.mark.parametrize("gamma", [1, 3, 8])
def test_typed_acceptance_gives_the_tau_of_the_formula(alpha: float, gamma: int) -> None:
    assert typed([alpha], gamma).tau == pytest.approx(tau_of(alpha, gamma), abs=0.003)


def test_acceptance_by_position_is_conditional() -> None:
    found = conditional_alpha(typed([0.7, 0.6, 0.5], 3))
    assert [each.median for each in found] == pytest.approx([0.7, 0.6, 0.5], abs=0.002)
    assert typed([0.7, 0.6, 0.5], 3).tau == pytest.approx(1 + 0.7 + 0.42 + 0.21, abs=0.002)


def test_intervals_are_over_prompts_not_rounds() -> None:
    same = Observed((rounds([2] * 50), rounds([2] * 50)))
    unlike = Observed((rounds([0] * 50), rounds([4] * 50)))
    assert tau_interval(same).low == tau_interval(same).high == 3
    assert tau_interval(unlike).low == 1 and tau_interval(unlike).high == 5


def test_the_beginning_of_an_answer_has_the_rounds_that_write_it() -> None:
    whole = Observed((rounds([2, 0, 4, 1]), rounds([0, 0, 0, 0])))
    assert [own.accepted.tolist() for own in whole.first(4).prompts] == [[2, 0], [0] * 4]
    assert [own.accepted.tolist() for own in whole.first(5).prompts] == [[2, 0, 4], [0] * 4]
    assert [own.nodes.tolist() for own in whole.first(1).prompts] == [[4], [4]]
    assert whole.first(99).tau == whole.tau


# the model against brute force


@pytest.mark.parametrize("c", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("alpha", [0.3, 0.6, 0.85])
def test_the_best_candidate_is_that_of_brute_force(c: float, alpha: float) -> None:
    v = (1.1, 1.15, 1.3, 1.4, 1.6, 1.8, 2.1, 2.4)
    costs = TypedCosts(c, v, 0.05)
    by_hand = {g: tau_of(alpha, g) / (g * c + v[g - 1] + 0.05) for g in GAMMAS}
    found = predict(Question(length=2000), chains(alpha), costs, NO_PREFILL)
    best = max(by_hand, key=lambda g: by_hand[g])
    assert by_hand[found[0].candidate.gamma or 0] == pytest.approx(by_hand[best], rel=0.01)
    for each in found:
        assert each.ratio.median == pytest.approx(by_hand[each.candidate.gamma or 0], rel=0.04)
        assert each.steady == pytest.approx(by_hand[each.candidate.gamma or 0], rel=0.003)
        assert each.drafting == pytest.approx((each.candidate.gamma or 0) * c)


def test_the_best_of_several_drafters_comes_first() -> None:
    costs = CalibratedCosts(made_calibration(), 100)
    found = predict(Question(), chains(0.8) | chains(0.3, "ngram"), costs, NO_PREFILL)
    assert [each.candidate.drafter for each in best_by_drafter(found)] == ["draft", "ngram"]


def test_calibrated_costs_are_the_calibrations() -> None:
    made = made_calibration()
    costs = CalibratedCosts(made, 100)
    observed = typed([0.6], 4)
    assert round_cost(Candidate("draft", 4), observed, costs) == pytest.approx(made.round_cost("draft", 4, 1, 100))
    assert round_cost(Candidate("draft", 4), observed, costs, 4) == pytest.approx(made.round_cost("draft", 4, 4, 100))


def test_measured_times_scale_the_calibrations() -> None:
    costs = CalibratedCosts(made_calibration(), 100, {"topk-tree": "draft"}, {"topk-tree": Timed((10.0,), (15.0,))})
    assert costs.ms("topk-tree", 4, 4, 1) == pytest.approx(1.5 * costs.ms("draft", 4, 4, 1))
    assert costs.scaled({"topk-tree": 2.0}).ms("topk-tree", 4, 4, 4) == pytest.approx(3 * costs.ms("draft", 4, 4, 4))


def test_a_tree_costs_what_its_draft_model_does() -> None:
    made = made_calibration()
    named = {name: calibrated_as(find(name), made) for name in ("sampled-tree", "eagle3-tree", "ngram", "lookahead")}
    assert named == {"sampled-tree": "draft", "eagle3-tree": "eagle3", "ngram": "ngram", "lookahead": "plain"}


# batches and lengths


def test_unequal_ends_cost_a_batch_more_than_the_formula_says() -> None:
    costs = CalibratedCosts(made_calibration(), 100)
    observed = chains(0.7)
    question = Question(objective=Objective.THROUGHPUT, concurrency=4, length=64)
    found = predict(question, observed, costs, NO_PREFILL)
    assert all(each.ratio.median < each.steady for each in found)


def test_latency_is_the_mean_and_throughput_the_end_of_the_batch() -> None:
    costs = CalibratedCosts(made_calibration(), 100)
    found = {
        objective: predict(
            Question(objective, concurrency=4, length=64, price_per_hour=1.0), chains(0.7), costs, NO_PREFILL
        )
        for objective in Objective
    }
    best = {objective: each[0].ratio.median for objective, each in found.items()}
    assert best[Objective.TAIL] < best[Objective.THROUGHPUT] < best[Objective.LATENCY]
    assert best[Objective.COST] == best[Objective.THROUGHPUT]


def test_the_ratio_is_the_geometric_mean_of_the_prompts_as_the_proof_measures_it() -> None:
    """One text is written five times as fast and one no faster: in the total time the slow one counts more."""
    unlike = {Candidate("draft", 4): Observed((rounds([4] * 20), rounds([0] * 20)))}
    costs = TypedCosts(0.0)
    (found,) = predict(Question(length=100), unlike, costs, NO_PREFILL)
    assert found.ratio.median == pytest.approx((5 * 1) ** 0.5)
    (tail,) = predict(Question(Objective.TAIL, length=100), unlike, costs, NO_PREFILL)
    assert tail.ratio.median == pytest.approx(1)


def test_a_draft_that_is_never_accepted_writes_a_token_a_round() -> None:
    finish = finish_times(typed([0.0], 2), lambda nodes, levels, rows: 3.0, 4, 10)
    assert (finish == 30).all()


def test_a_full_acceptance_fills_every_round() -> None:
    finish = finish_times(typed([1.0], 4), lambda nodes, levels, rows: float(rows), 2, 10)
    assert (finish == 2 * 2).all()


def test_finished_sequences_leave_the_batch() -> None:
    easy, hard = rounds([4] * 10), rounds([0] * 10)
    seen: set[int] = set()

    def cost(nodes: int, levels: int, rows: int) -> float:
        seen.add(rows)
        return 1.0

    finish_times(Observed((easy, hard)), cost, 2, 20)
    assert seen == {1, 2}


# limits


def test_break_even_acceptance_breaks_even() -> None:
    costs = TypedCosts(0.1, (1.0, 1.05, 1.1, 1.2), 0.1)
    observed = {Candidate("draft", 3): typed([0.61], 3)}
    chosen = predict(Question(), observed, costs, NO_PREFILL)[0]
    found = limits.limits(chosen, observed, costs, NO_PREFILL)
    assert found.alpha == pytest.approx(0.61, abs=0.002)
    assert found.min_alpha is not None
    assert tau_of(found.min_alpha, 3) == pytest.approx(3 * 0.1 + 1.1 + 0.1)
    assert steady_ratio(Candidate("draft", 3), typed([found.min_alpha], 3), costs) == pytest.approx(1, abs=0.003)


def test_limits_are_those_of_the_asked_concurrency() -> None:
    costs, observed = CalibratedCosts(made_calibration(), 100), {Candidate("draft", 3): typed([0.7], 3)}
    found = {}
    for readers in (1, 4):
        chosen = predict(Question(concurrency=readers), observed, costs, PrefillTimes(5.0, {"draft": 4.0}))[0]
        found[readers] = limits.limits(chosen, observed, costs, PrefillTimes(5.0, {"draft": 4.0}), readers)
        assert found[readers].min_tau == pytest.approx(made_calibration().round_cost("draft", 3, readers, 100))
    assert found[1].shortest is not None and found[4].shortest is not None
    assert found[4].shortest > found[1].shortest


@pytest.mark.parametrize(("c", "expected"), [(0.05, 0.20), (0.1, 0.33), (0.2, 0.51), (0.3, 0.62)])
def test_break_even_acceptance_of_the_known_table(c: float, expected: float) -> None:
    """gamma 5 and v 1: the acceptance at which a chain pays is no constant."""
    assert alpha_of(5 * c + 1, 5) == pytest.approx(expected, abs=0.006)


def test_break_even_draft_cost_breaks_even() -> None:
    costs = TypedCosts(0.4, (1.1,), 0.0)
    observed = {Candidate("draft", 2): typed([0.5], 2)}
    chosen = predict(Question(), observed, costs, NO_PREFILL)[0]
    found = limits.limits(chosen, observed, costs, NO_PREFILL)
    assert found.step == pytest.approx(0.4) and found.max_step is not None
    assert steady_ratio(Candidate("draft", 2), observed[Candidate("draft", 2)], TypedCosts(found.max_step, (1.1,))) == (
        pytest.approx(1)
    )


def test_the_shortest_answer_earns_the_prefill_back() -> None:
    assert limits.shortest_answer(1.5, 10.0, 30.0) == 9  # 30 / (10 / 3)
    assert limits.shortest_answer(1.5, 10.0, 0.0) == 1
    assert limits.shortest_answer(0.9, 10.0, 30.0) is None


def test_short_answers_lose_what_the_prefill_costs() -> None:
    costs, observed = TypedCosts(0.1), chains(0.7)
    prefill = PrefillTimes(plain=5.0, extra={"draft": 4.0})
    short = predict(Question(length=4), observed, costs, prefill)[0].ratio.median
    long = predict(Question(length=400), observed, costs, prefill)[0].ratio.median
    assert short < 1 < long


def test_plain_decoding_reads_the_prompt_too() -> None:
    """Ten tokens in two rounds of 1 + 4 c, behind a prompt that takes both 100, and the drafter 7 more."""
    always, prefill = {Candidate("draft", 4): typed([1.0], 4)}, PrefillTimes(100.0, {"draft": 7.0})
    (found,) = predict(Question(length=10), always, TypedCosts(0.1), prefill)
    assert found.ratio.median == pytest.approx((100 + 10) / (107 + 2 * 1.4))


class Crowded(RoundCosts):
    """Verification costs nothing alone, and as much as its rows from 8 readers on."""

    max_batch = 32

    def ms(self, drafter: str, nodes: int, levels: int, batch: int) -> float:
        return max(1.0, batch * (nodes + 1) / 8) + 0.05 * levels


def test_readers_from_which_it_is_left_off() -> None:
    observed = chains(0.6)
    found = limits.off_from(observed, Crowded())
    by_hand = [
        batch
        for batch in range(1, 33)
        if any(tau_of(0.6, g) * max(1.0, batch / 8) > max(1.0, batch * (g + 1) / 8) + 0.05 * g for g in GAMMAS)
    ]
    assert found == by_hand[-1] + 1
    plan = limits.schedule(Candidate("draft"), observed, Crowded())
    assert plan[0].first == 1 and plan[-1].last == 32 and plan[-1].gamma == 0
    assert [each.gamma for each in plan] == sorted((each.gamma for each in plan), reverse=True)
    assert next(each.first for each in plan if each.gamma == 0) == found
    own = limits.schedule(Candidate("draft", 2), observed, Crowded(), 32)  # measured there: no model overrules it
    assert own[-1].gamma == 2 and own[0] == plan[0]


# verdicts


def measured(low: float, median: float, high: float, name: str = "draft", prompts: int = 8) -> Measured:
    return Measured(Candidate(name, 3), Interval(median, low, high), 1.4, prompts, 3 * prompts, 96)


def test_a_slower_interval_is_never_advised() -> None:
    found = decide([measured(0.8, 0.9, 0.97), measured(0.7, 0.85, 0.95, "ngram")])
    assert found.verdict is Verdict.OFF and found.chosen.candidate.drafter == "draft"


def test_the_faster_of_those_that_were_proven_is_advised() -> None:
    found = decide([measured(1.1, 1.2, 1.3), measured(1.2, 1.3, 1.4, "eagle3"), measured(0.9, 1.9, 3.0, "ngram")])
    assert found.verdict is Verdict.ON and found.chosen.candidate.drafter == "eagle3"


def test_an_interval_that_contains_1_decides_nothing() -> None:
    found = decide([measured(0.95, 1.05, 1.15)])
    assert found.verdict is Verdict.OPEN and found.prompts_needed == 8 * 4
    assert prompts_needed(measured(0.9, 1.001, 1.1)) is None
    assert prompts_needed(measured(0.8, 0.9, 1.1)) == 8 * 4
    assert prompts_needed(measured(0.99, 1.05, 1.06, prompts=1)) == 5  # fewer do not tell how prompts differ


@pytest.mark.parametrize("ratio", [0.6, 1.6])
def test_one_run_decides_nothing_however_fast_it_was(ratio: float) -> None:
    once = Measured(Candidate("cascade", 1), Interval(ratio, ratio, ratio), 0.77, 1, 1, 96)
    found = decide([once])
    assert found.verdict is Verdict.OPEN and found.prompts_needed == 5
    chosen = predict(Question(), chains(0.6), TypedCosts(0.1), NO_PREFILL)[0]
    ends = limits.limits(chosen, chains(0.6), TypedCosts(0.1), NO_PREFILL)
    said = " ".join(sentences.of_decision(Question(), found, ends))
    assert "one run is too few to tell" in said and "Give 5 prompts or more" in said


def test_a_hopeless_draft_is_left_off() -> None:
    observed, costs = chains(0.05), TypedCosts(0.3)
    best = predict(Question(), observed, costs, NO_PREFILL)[0]
    said = sentences.of_prediction(Question(), best, limits.limits(best, observed, costs, NO_PREFILL))
    assert said[0].startswith("Leave it off")
    assert any("above an acceptance rate of 0.30 (yours: 0.05)" in each for each in said)
    assert any("less than 0.05 of a round" in each for each in said)


def test_sentences_of_a_measured_decision() -> None:
    costs = TypedCosts(0.1)
    observed = {Candidate("draft", 3): typed([0.61], 3)}
    found = limits.limits(predict(Question(), observed, costs, NO_PREFILL)[0], observed, costs, NO_PREFILL)
    on = sentences.of_decision(Question(), decide([measured(1.35, 1.42, 1.5)]), found)
    assert on[0] == (
        "Turn it on: draft, gamma 3: 1.42x [1.35, 1.50] the speed of plain decoding, at temperature 0, at 1 "
        "concurrent request, measured with 8 prompts (predicted 1.40x)."
    )
    assert any("would stop paying below an acceptance rate of" in each for each in on)
    unclear = sentences.of_decision(Question(concurrency=4), decide([measured(0.95, 1.05, 1.15)]), found)
    assert unclear[0].startswith("It cannot be told") and "at 4 concurrent requests" in unclear[0]
    assert "About 32 prompts would tell" in unclear[1]
    single = sentences.of_decision(Question(), decide([measured(1.4, 1.4, 1.4, prompts=1)]), found)
    assert "1.40x the speed" in single[0] and single[-1].startswith("One answer has no interval")


def test_whether_it_holds_at_other_temperatures_is_said() -> None:
    """The verdict did not say which temperature it was for, nor whether it held at another."""
    costs, observed = TypedCosts(0.1), {Candidate("draft", 3): typed([0.61], 3)}
    ends = limits.limits(predict(Question(), observed, costs, NO_PREFILL)[0], observed, costs, NO_PREFILL)
    ratio = Interval(1.2, 1.1, 1.3)
    others = [AtTemperature(0.0, Verdict.ON, ratio), AtTemperature(0.7, Verdict.OPEN, Interval(1.0, 0.9, 1.1)),
              AtTemperature(1.0, Verdict.OFF, Interval(0.8, 0.7, 0.9))]  # fmt: skip
    said = sentences.of_decision(Question(temperature=0.5), decide([measured(1.35, 1.42, 1.5)]), ends, others)
    assert "at temperature 0.5," in said[0]
    assert [each for each in said[1:] if "temperature" in each] == [
        "It holds at temperature 0 too: 1.20x [1.10, 1.30].",
        "At temperature 0.7 it cannot be told: 1.00x [0.90, 1.10].",
        "It flips at temperature 1: leave it off there, 0.80x [0.70, 0.90].",
    ]


def test_few_prompts_are_said() -> None:
    costs = TypedCosts(0.1)
    observed = chains(0.6)
    found = limits.limits(predict(Question(), observed, costs, NO_PREFILL)[0], observed, costs, NO_PREFILL)
    said = sentences.of_decision(Question(), AdviceDecision(Verdict.ON, measured(1.1, 1.2, 1.3, prompts=1)), found)
    assert "does not tell how other texts would fare" in said[-1]


def test_money() -> None:
    question = Question(Objective.COST, price_per_hour=3.6)
    assert "cost 10.00 instead of 20.00" in sentences.price(question, 50.0, 2.0)


# candidates


def test_a_run_tells_every_smaller_size() -> None:
    assert [each.gamma for each in implied(sizes_of(find("draft"))[0])] == list(GAMMAS)
    assert [each.shape for each in implied(sizes_of(find("sampled-tree"))[0])] == list(SHAPES)
    assert WIDEST in SHAPES
    assert implied(sizes_of(find("eagle3-tree"))[0]) == [Candidate("eagle3-tree")]


# questions


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"concurrency": 0}, "concurrency = 0"),
        ({"concurrency": 65}, "concurrency = 65"),
        ({"context": 1}, "context = 1"),
        ({"seconds": 0.5}, "seconds = 0.5"),
        ({"length": 0}, "0"),
        ({"temperature": -1.0}, "temperature"),
        ({"objective": Objective.COST}, "--price-per-hour"),
        ({"price_per_hour": -2.0}, "price_per_hour = -2"),
    ],
)
def test_a_value_out_of_range_is_named(values: dict[str, object], word: str) -> None:
    with pytest.raises(DraftscopeError, match=word):
        Question(**values)  # type: ignore[arg-type]


# other engines

PLAN = [ScheduleRange(1, 4, 3), ScheduleRange(5, 11, 2), ScheduleRange(12, 64, 0)]


def settings_of(candidate: Candidate, plan: list[ScheduleRange] | None = None) -> dict[str, str]:
    return {each.engine: each.settings for each in servers.ready(candidate, plan or [], "small")}


def test_vllm_gets_json_with_a_schedule() -> None:
    text = settings_of(Candidate("draft", 3), PLAN)["vLLM"]
    config = json.loads(text.removeprefix("--speculative-config '").removesuffix("'"))
    assert config["method"] == "draft_model" and config["model"] == "small"
    assert config["num_speculative_tokens_per_batch_size"] == [[1, 4, 3], [5, 11, 2], [12, 64, 0]]


def test_other_engines_get_their_schedules_where_they_have_one() -> None:
    found = settings_of(Candidate("eagle3", 3), PLAN)
    assert (
        '{"1": {"candidate_steps": [3]}, "5": {"candidate_steps": [2]}, "12": {"candidate_steps": [0]}}'
        in found["SGLang"]
    )
    assert "draft_len_schedule: {4: 3, 11: 2}" in found["TensorRT-LLM"]
    assert found["llama.cpp"] == "--spec-type draft-eagle3 --spec-draft-model small.gguf --spec-draft-n-max 3"


def test_a_tree_is_written_as_a_chain_and_said_so() -> None:
    found = servers.ready(Candidate("sampled-tree", shape=(2, 1, 1)), [])
    assert '"num_speculative_tokens": 3' in found[0].settings and "is a tree" in found[0].note


def test_what_an_engine_lacks_is_said() -> None:
    found = {each.engine: each for each in servers.ready(Candidate("lookahead"), [])}
    assert found["vLLM"].settings == "" and "has no drafter like 'lookahead'" in found["vLLM"].note


def test_the_installed_transformers_knows_the_names() -> None:
    names = (
        "num_assistant_tokens",
        "num_assistant_tokens_schedule",
        "assistant_confidence_threshold",
        "prompt_lookup_num_tokens",
    )
    written = settings_of(Candidate("draft", 3))["transformers"] + settings_of(Candidate("ngram", 3))["transformers"]
    assert all(hasattr(GenerationConfig(), name) and name in written for name in names)
