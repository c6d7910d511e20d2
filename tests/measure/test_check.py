"""`check` on the shipped pair in bfloat16: a tie of the target's logits is no difference, a wrong rule still is one."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import Any

import pytest
import torch

from draftscope import load
from draftscope.base.errors import DraftscopeError
from draftscope.base.steps import last
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.lane import Lane
from draftscope.drafters.settings import Settings
from draftscope.measure import check as checks
from draftscope.measure import greedy_checks, joint, sampled, ties
from draftscope.measure.findings import Finding, verdict
from draftscope.measure.greedy_checks import GreedyTest
from draftscope.measure.sampled import names_of_findings
from draftscope.models.model import Model
from draftscope.models.precise import fp32_logits
from draftscope.trace.events import Divergence
from draftscope.verify import drawing, verify
from tests.support.distribution import distribution_test
from tests.support.mutations import token_dropped, wrong_greedy

GREEDY = (greedy_checks.greedy_identity, greedy_checks.end_inside_a_block, greedy_checks.ragged_batch)
PROMPTS = ("The sea was calm and", "He said that the old man")


@pytest.fixture(scope="module")
def shipped() -> Iterator[DecodingEngine]:
    with load(dtype="bfloat16", threads=1) as engine:
        yield engine


@pytest.fixture(scope="module")
def plains(shipped: DecodingEngine) -> GreedyTest:
    """What plain writes and how the target rounds, before a test adds rounding or a wrong rule."""
    case = GreedyTest(shipped, "plain", prompts=PROMPTS)
    assert case.plain and case.rounding.bound > 0
    return case


def case_of(plains: GreedyTest, drafter: str) -> GreedyTest:
    case = copy(plains)
    object.__setattr__(case, "drafter", drafter)
    return case


def rounded(monkeypatch: pytest.MonkeyPatch, engine: DecodingEngine, most: float) -> None:
    """Forwards of several rows get logits that are off by up to `most`, as another order of summation might."""
    right, dice = engine.target.run, torch.Generator().manual_seed(0)

    def run(*args: Any, **kwargs: Any) -> Any:
        out = right(*args, **kwargs)
        if 1 < kwargs["input_ids"].shape[1] <= 20:
            noise = (2 * torch.rand(out.logits.shape, generator=dice) - 1) * most
            out = replace(out, logits=(out.logits.float() + noise).to(out.logits.dtype))
        return out

    monkeypatch.setattr(engine.target, "run", run)


def test_logits_in_fp32_are_those_of_an_fp32_copy_and_leave_the_model_alone(shipped: DecodingEngine) -> None:
    before = {name: weight.data_ptr() for name, weight in shipped.target.network.named_parameters()}
    found = fp32_logits(shipped.target, shipped.encode(PROMPTS[0]))
    assert before == {name: weight.data_ptr() for name, weight in shipped.target.network.named_parameters()}
    with load(dtype="float32", threads=1) as same:
        right = fp32_logits(same.target, shipped.encode(PROMPTS[0]))
    assert torch.allclose(found, right, atol=1e-3)


@pytest.mark.parametrize("test", GREEDY)
@pytest.mark.parametrize("drafter", ["sampled-tree", "draft"])
def test_rounding_is_a_tie_and_no_difference(
    shipped: DecodingEngine, plains: GreedyTest, monkeypatch: pytest.MonkeyPatch, drafter: str, test: Any
) -> None:
    bench = case_of(plains, drafter)
    rounded(monkeypatch, shipped, most=bench.rounding.bound / 4)
    finding: Finding = last(test(bench, 8) if test is greedy_checks.end_inside_a_block else test(bench))
    assert finding.passed, finding.detail
    assert not finding.ties or "a tie" in finding.detail


def test_a_races_lanes_are_judged_as_the_check_judges(shipped: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page shows these events; its own idea of a tie was a number for each dtype."""

    def raced() -> list[Divergence]:
        settings = {name: Settings.of(drafter=name, max_new_tokens=48) for name in ("plain", "ngram")}
        lanes = {name: Lane.of(shipped, one) for name, one in settings.items()}
        runs = {name: last(shipped.opening(PROMPTS[0], lane, lane=name)) for name, lane in lanes.items()}
        for run in runs.values():
            assert list(run.events())
        assert list(ties.parted(shipped, PROMPTS[0], {"ngram": lanes["ngram"]}, runs)) == []
        return list(ties.parted(shipped, PROMPTS[0], lanes, runs, "r1"))

    assert all(event.tie for event in raced())
    with monkeypatch.context() as patch:
        wrong_greedy(patch, every=7)
        (event,) = raced()
    case = GreedyTest(shipped, "ngram", prompts=PROMPTS[:1])
    assert (event.run, event.lane, event.tie) == ("r1", "ngram", False)
    assert event.behind > event.bound
    assert event.bound == pytest.approx(case.rounding.bound, rel=1.0)


def test_a_tie_is_counted_and_said(shipped: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ties, "MARGIN", 10.0)  # as if the target rounded so coarsely that its texts have ties
    bench = GreedyTest(shipped, "topk-tree", prompts=PROMPTS)
    rounded(monkeypatch, shipped, most=bench.rounding.bound / 4)
    found = [last(greedy_checks.greedy_identity(bench)), last(greedy_checks.ragged_batch(bench))]
    assert sum(finding.ties for finding in found) > 0
    assert all(finding.passed for finding in found), found
    said = verdict(found, exact=True)
    assert said.startswith("The rule is proved; on this pair no difference was found. Ties met: ")


@pytest.mark.parametrize("drafter", ["sampled-tree", "draft", "ngram"])
def test_a_wrong_greedy_rule_is_caught_in_16_bits(
    plains: GreedyTest, monkeypatch: pytest.MonkeyPatch, drafter: str
) -> None:
    wrong_greedy(monkeypatch)
    finding = last(greedy_checks.greedy_identity(case_of(plains, drafter)))
    assert not finding.passed
    assert "trails the target's best" in finding.detail


def test_where_rounding_is_most_of_the_lead_nothing_is_called_a_tie(
    shipped: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = GreedyTest(shipped, "draft", prompts=PROMPTS)
    assert bench.plain
    right = Model.forward

    def noisy(self: Model, *args: Any, **kwargs: Any) -> torch.Tensor:
        found = right(self, *args, **kwargs)
        return found + 20 * torch.rand(found.shape, generator=torch.Generator().manual_seed(1)).to(found.dtype)

    with monkeypatch.context() as patch:
        patch.setattr(Model, "forward", noisy)  # what the rounding is measured with
        assert bench.rounding.judged < 0.5
    wrong_greedy(monkeypatch)
    assert not last(greedy_checks.greedy_identity(bench)).passed


def test_the_distribution_is_tested_where_rounding_leaves_outcomes_to_compare(shipped: DecodingEngine) -> None:
    """After the first prompt two of the tokens at the edge of top-k 3 are nearly equal in bfloat16."""
    prompts = [f"{start}{more}" for start in PROMPTS for more in ("", " and", " it", " the")]
    settings = Settings.of(drafter="draft", temperature=1.0, top_k=3)
    edges = {each: joint.edge(fp32_logits(shipped.target, shipped.encode(each))[-1], 3) for each in prompts}
    unclear = min(edges, key=lambda each: edges[each])
    assert edges[unclear] < joint.rounding_of_logits(shipped)
    _, there, _ = last(sampled.choose_text(shipped, [shipped.encode(unclear)], settings, length=4, samples=2048))
    assert there.top_k != 3
    assert distribution_test(shipped, unclear, there, 2, 512).passed


def test_siblings_are_tested_where_they_are_rejected(shipped: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A q that keeps a rejected sibling passed at temperature 1 on this pair, and is caught at 2."""
    asked: list[float] = []

    def recorded(_: GreedyTest, __: DecodingEngine, settings: Settings, *___: object) -> Iterator[Finding]:
        asked.append(settings.temperature)
        yield Finding("joint distribution", True, "")

    monkeypatch.setattr(checks, "TESTS", ())
    monkeypatch.setattr(checks, "run_on_active_texts", recorded)
    for drafter in ("draft", "sampled-tree"):
        assert list(checks.check(shipped, drafter, 500))
    assert asked == [1.0, 1.0, 2.0]


def test_an_exception_of_the_engine_is_a_finding(shipped: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test that it ends is named, with the exception and its place, and the other tests go on."""

    def broken(*_: object) -> None:
        raise IndexError("index is out of bounds for dimension with size 0")

    monkeypatch.setattr(checks, "TESTS", (greedy_checks.one_forward_a_round, greedy_checks.begun_again))
    monkeypatch.setattr(drawing, "loops", lambda: None)
    monkeypatch.setattr(verify, "draw", broken)  # above temperature 0 only
    found = list(checks.check(shipped, "draft", 500, rule="token", prompts=PROMPTS))
    assert [each.passed for each in found] == [True, False, False, False, False, False, False]
    assert [each.error for each in found] == ["", *["IndexError"] * 6]
    assert all("IndexError in verify.py, line" in each.detail for each in found[1:])
    assert verdict(found, exact=True) == (
        "The engine ended with an error: begun again, fresh random numbers, sums of probabilities, drafted tokens, "
        "tokens that the draft favours (token), joint distribution (token)."
    )
    assert [each.name for each in found[2:]] == list(names_of_findings("token"))


def test_a_question_that_is_refused_is_no_finding(shipped: DecodingEngine) -> None:
    with pytest.raises(DraftscopeError, match="no drafter 'drafft'"):
        list(checks.check(shipped, "drafft", 500))
    with pytest.raises(DraftscopeError, match="context"):
        list(checks.check(shipped, "draft", 500, prompts=["word " * 5000]))


def test_a_round_without_a_draft_does_not_end_the_engine(
    shipped: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A length that drops the token it found unlikely drafts nothing at all in some rounds."""
    token_dropped(monkeypatch)
    settings = Settings.of(
        drafter="medusa", rule="token", draft_length="confidence", temperature=1.0, max_new_tokens=12, gamma=3
    )
    prompts = [shipped.encode(prompt) for prompt in PROMPTS]
    steps = list(shipped.start_batch(prompts, settings, (0, 1), ends=False).steps())
    assert any(not step.tree.nodes for step in steps)


@pytest.mark.usefixtures("little_calibrated")
def test_siblings_are_tested_whatever_tree_pays(shipped: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a q rounded to bfloat16 a check of Sequoia's tree passed where nothing was drafted since no tree paid, and
    with a q that keeps the rejected token where the fastest tree had no siblings."""
    drafted: list[int] = []

    def recorded(_: GreedyTest, engine: DecodingEngine, *__: object) -> Iterator[Finding]:
        drafted.append(len(engine.decode("Once", "sequoia", max_new_tokens=8).round_events[0].nodes))
        yield Finding("joint distribution", True, "")

    monkeypatch.setattr(checks, "TESTS", ())
    monkeypatch.setattr(checks, "run_on_active_texts", recorded)
    assert list(checks.check(shipped, "sequoia", 500))
    assert drafted == [9]


@pytest.mark.parametrize(("device", "dtype", "may"), [
    ("cuda", torch.bfloat16, True), ("cuda", torch.float16, True), ("cuda", torch.float32, False),
    ("cpu", torch.bfloat16, False),
])  # fmt: skip
def test_ties_on_a_card_are_said_beforehand(
    shipped: DecodingEngine, monkeypatch: pytest.MonkeyPatch, device: str, dtype: torch.dtype, may: bool
) -> None:
    """Also where no text parted: in 16 bits a forward of one row and one of several run other kernels there."""
    case = GreedyTest(shipped, "ngram", prompts=PROMPTS[:1], tokens=8)
    assert case.plain and case.rounding.bound
    monkeypatch.setattr(shipped.target, "device", torch.device(device))
    monkeypatch.setattr(shipped.target, "dtype", dtype)
    assert ties.may_part(shipped) == may
    assert ("in 16 bits on CUDA" in greedy_checks._with_ties("equal", [], case)) == may
    assert ("as expected in 16 bits on CUDA" in greedy_checks._with_ties("equal", ["a tie"], case)) == may
