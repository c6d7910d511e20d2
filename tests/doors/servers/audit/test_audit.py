"""The audit on tables of probabilities: an exact server is never called different, and every mutant is.

The chance that an exact server is flagged at least once in the 30 audits is 3e-5 at most. The mutants differ for
certain, and are caught with these seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.servers.adapter import Chunk, Request, ServerError
from draftscope.servers.audit.coverage import NEEDED
from draftscope.servers.audit.evidence import Evidence
from draftscope.servers.audit.facts import TILTS, Facts, facts_of
from draftscope.servers.audit.greedy import GreedyResult
from draftscope.servers.audit.missed import missed
from draftscope.servers.audit.plan import Allowance, Plan
from draftscope.servers.audit.text_writer import Writer
from draftscope.servers.audit.verdict import _repeated, greedy_sentence, sampled_sentence
from draftscope.servers.audit.warp import Floats, warped
from draftscope.servers.audit.waves import Audited, sampled
from draftscope.servers.programs.program import Step
from draftscope.servers.programs.program_list import PROGRAMS, find
from draftscope.verify.sampling import Sampling
from tests.doors.servers.audit.tabular import (
    VOCABULARY,
    Table,
    TabularServer,
    argmax_drafts,
    lenient,
    plain,
    token_rule,
    wrong_residual,
)
from tests.programs import audit_power

PROMPTS = ((1, 2), (3, 4), (5, 6), (7, 8))
ALLOWED = Allowance()
PLAN = Plan(samples=1200, seconds=1e9)
SHORT = Plan(samples=48, tokens=5, concurrency=8, seconds=1e9)
SETTINGS = (
    Sampling(),
    Sampling(0.7),
    Sampling(1.0, 6),
    Sampling(1.0, 0, 0.9),
    Sampling(1.0, 0, 1.0, 0.1),
    Sampling(0.8, 10, 0.9, 0.05),
)


def audited(writer: Writer, plan: Plan = PLAN, allowance: Allowance = ALLOWED, order: str = "vllm") -> Audited:
    for state in sampled(writer, Table(), PROMPTS, plan, allowance, find(order).sampling_order):
        last = state
    return last


def verdict(state: Audited) -> str:
    return sampled_sentence(state, missed(state.evidence, state.plan.false_alarm))


# No false alarm.


def test_exact_servers_are_not_flagged() -> None:
    """That every bet is fair is enumerated in `test_audit_fairness.py`; here 30 whole audits, most with rounding."""
    for number in range(30):
        plan = replace(SHORT, sampling=SETTINGS[number % len(SETTINGS)], seed=1000 * number)
        server = TabularServer(rule=(token_rule, plain)[number % 2], noise=0.02 * (number % 3 > 0))
        state = audited(server, plan)
        assert not state.different, verdict(state)
        assert state.ended == "samples"
        assert state.evidence.total < math.log(30) + 3  # a test martingale is seldom large at all


# Mutants.

FIXED_SEED, BATCH_NOISE = (lambda request: 0), (lambda request: request.seed // 4)
MUTANTS: dict[str, tuple[TabularServer, Sampling, str]] = {
    "argmax drafts": (TabularServer(rule=argmax_drafts), Sampling(), "from its target"),
    "wrong residual": (TabularServer(rule=wrong_residual), Sampling(), "from its target"),
    "lenient threshold": (TabularServer(rule=lenient), Sampling(), "from its target"),
    "one noise for all seeds": (TabularServer(seed_of=FIXED_SEED), Sampling(), "pairs are identical"),
    "one noise for requests at once": (TabularServer(seed_of=BATCH_NOISE), Sampling(), "pairs are identical"),
    "temperature .9 for 1": (TabularServer(temperature=0.9), Sampling(), "nats high"),
    "temperature 1 for .8": (TabularServer(temperature=1.0), Sampling(0.8), "nats low"),
    "top-k ignored": (TabularServer(ignores="top_k"), Sampling(1.0, 6), "excluded by the settings"),
    "top-p ignored": (TabularServer(ignores="top_p"), Sampling(1.0, 0, 0.9), "excluded by the settings"),
    "min-p ignored": (TabularServer(ignores="min_p"), Sampling(1.0, 0, 1.0, 0.1), "excluded by the settings"),
    "truncated before the temperature": (TabularServer(order="llama.cpp"), Sampling(0.5, 0, 0.8), "excluded"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    server, sampling, words = MUTANTS[name]
    state = audited(server, replace(PLAN, sampling=sampling))
    assert state.ended == "difference", verdict(state)
    assert words in verdict(state)


def test_the_position_from_which_a_server_differs_is_named() -> None:
    """Drafts that are always accepted, as far from the target as can be; the first token is right."""

    def least_probable(p: Floats, q: Floats, dice: np.random.Generator) -> int:
        return int(p.argmin())

    state = audited(TabularServer(rule=least_probable), replace(PLAN, false_alarm=1e-40))
    assert "differs from its target, at the latest from the second token on: " in verdict(state)
    assert "nats low, z = " in verdict(state)


# What could have been missed.


@pytest.mark.slow
def test_what_could_have_been_missed_is_found_19_times_in_20() -> None:
    """Tokens of a flat distribution, half of the mass by rank raised by the total variation that is reported."""
    dice, n, rounds = np.random.default_rng(4), 1000, 40

    def run(variation: float) -> Evidence:
        evidence = Evidence(Allowance(), 10)
        for _ in range(n // 10):
            evidence.take(shifted(dice, variation))
        return evidence

    least = missed(run(0.0), 1e-6).variation
    assert least is not None and 0.05 < least < 0.25
    found = sum(run(least).total >= math.log(1e6) for _ in range(rounds))
    assert found >= 0.95 * rounds - 3 * math.sqrt(rounds * 0.05 * 0.95)
    assert sum(run(least / 3).total >= math.log(1e6) for _ in range(10)) == 0  # and the bound is no wild guess


def shifted(dice: np.random.Generator, variation: float) -> Facts:
    """Ten tokens of which only the ranks say something."""
    upper = dice.random(10) < 0.5 + variation
    pit = (dice.random(10) + ~upper) / 2
    none = np.zeros(10)
    masses, counted = np.zeros((10, 4)), np.ones(10, bool)
    masses[:, 0] = 1.0
    tokens = tuple(map(int, dice.integers(0, 10**9, 10)))
    chance = np.full(10, math.log(1e-9))
    norms = np.multiply.outer(chance, TILTS)
    return Facts(0, tokens, counted, ~counted, chance, chance, none, norms, 0 * norms, pit, np.zeros(10, int), masses)


def test_a_shift_of_the_mean_that_could_not_be_missed_is_found() -> None:
    """Sampled at the temperature whose mean log-probability lies just that far above the target's."""
    plan = replace(SHORT, samples=300)
    least = missed(audited(TabularServer(), plan).evidence, 1e-6).nats
    assert least is not None

    def shift(temperature: float) -> float:
        exact = np.exp(warped(Table()._logits, Sampling(temperature), find("vllm").sampling_order)[0])
        right = warped(Table()._logits, Sampling(), find("vllm").sampling_order)[0]
        return float(((exact - np.exp(right)) * right).sum(-1).mean())

    temperature = next(t for t in np.arange(0.95, 0.4, -0.01) if shift(float(t)) >= 1.1 * least)
    server = TabularServer(temperature=float(temperature))
    found = sum(audited(server, replace(plan, seed=5000 * n)).different for n in range(10))
    assert found >= 8


@pytest.mark.parametrize(
    ("fault", "variation"),
    [("temperature", 0.2), ("drafted tokens", 0.2), ("top-k", 0.05), ("fresh random numbers", 0.2)],
)
def test_the_tokens_that_the_coverage_table_names_are_those_that_are_needed(fault: str, variation: float) -> None:
    needed = audit_power.tokens_needed(fault, variation, runs=3)
    assert needed is not None and needed <= 2 * NEEDED[fault][variation] and NEEDED[fault][variation] <= 2 * needed


def test_more_samples_leave_less_to_miss() -> None:
    few, many = (missed(audited(TabularServer(), replace(SHORT, samples=n)).evidence, 1e-6) for n in (60, 240))
    assert few.variation and many.variation and many.variation < few.variation
    assert few.nats and many.nats and many.nats < few.nats
    assert "would have seen a total variation of" in verdict(audited(TabularServer(), SHORT))


# Settings and the edge of a truncation.


@pytest.mark.parametrize("sampling", SETTINGS)
def test_the_distribution_is_that_of_the_engine(sampling: Sampling) -> None:
    import torch

    logits = np.random.default_rng(3).standard_normal((5, 40)) * 2
    ours = np.exp(warped(logits, sampling, find("transformers").sampling_order)[0])
    assert ours == pytest.approx(sampling.distribution(torch.tensor(logits)).numpy(), abs=1e-6)


@pytest.mark.parametrize("order", [program.kind for program in PROGRAMS if program.sampling_order])
@pytest.mark.parametrize("sampling", SETTINGS[2:])
def test_a_token_that_rounding_lets_in_or_out_is_at_the_edge(order: str, sampling: Sampling) -> None:
    dice, steps = np.random.default_rng(8), find(order).sampling_order
    logits = dice.standard_normal((200, 60)) * 2
    logs, edge = warped(logits, sampling, steps, slack=0.1)
    for _ in range(5):
        other, _ = warped(logits + dice.uniform(-0.02, 0.02, logits.shape), sampling, steps)
        moved = np.isneginf(other) != np.isneginf(logs)
        assert edge is not None
        assert not (moved & ~edge).any()


def test_several_tokens_that_end_a_text_count_as_one() -> None:
    logits = np.random.default_rng(1).standard_normal((1, VOCABULARY))

    def facts(token: int) -> Facts:
        return facts_of(0, [token], logits.copy(), Sampling(), STEPS, Allowance(), np.random.default_rng(0), (4, 9))

    assert facts(4).logp == facts(9).logp
    assert facts(4).tokens == facts(9).tokens
    assert math.exp(facts(4).logp[0]) == pytest.approx(np.exp(warped(logits, Sampling(), STEPS)[0])[0, [4, 9]].sum())


STEPS: tuple[Step, ...] = find("vllm").sampling_order


# Ends, limits, and servers that fail.


class Ending(TabularServer):
    """Ends a text at token 3, and names that token or not."""

    named = True

    def stream(self, request: Request) -> Iterator[Chunk]:
        (whole,) = super().stream(request)
        ends = 3 in whole.ids
        ids = whole.ids[: whole.ids.index(3) + self.named] if ends else whole.ids
        yield Chunk(ids, "text", 0.0, "stop" if ends else "length")


@pytest.mark.parametrize("named", [True, False])
def test_a_text_may_end(named: bool) -> None:
    server = Ending()
    server.named = named
    for state in sampled(server, Table(ends=(3,)), PROMPTS, SHORT, Allowance(), STEPS):
        last = state
    assert not last.different
    assert last.evidence.counted < SHORT.samples * SHORT.tokens


def test_a_server_that_never_ends_a_text_is_caught() -> None:
    """It draws another token instead of the end."""

    def no_end(p: Floats, q: Floats, dice: np.random.Generator) -> int:
        kept = p.copy()
        kept[3] = 0
        return plain(kept, q, dice)

    for state in sampled(TabularServer(rule=no_end), Table(ends=(3,)), PROMPTS, PLAN, Allowance(), STEPS):
        last = state
    assert last.different


def test_time_ends_an_audit() -> None:
    clock = iter(range(0, 10_000, 10))
    states = list(
        sampled(
            TabularServer(), Table(), PROMPTS, replace(SHORT, seconds=25.0), Allowance(), STEPS, lambda: next(clock)
        )
    )
    assert [state.ended for state in states][-1] == "time" and len(states) == 3


class Failing(TabularServer):
    """Fails from its `after`-th request on."""

    after = 0
    asked = 0

    def stream(self, request: Request) -> Iterator[Chunk]:
        self.asked += 1
        if self.asked > self.after:
            raise ServerError("http://127.0.0.1:1 closed the stream.")
        return super().stream(request)


def test_a_server_that_dies_ends_the_audit_and_keeps_what_was_seen() -> None:
    server = Failing()
    server.after = 40
    state = audited(server, SHORT)
    assert state.ended == "failures" and not state.different
    assert state.evidence.texts == 40 and "closed the stream" in state.failures[-1]
    server.after = 0
    with pytest.raises(ServerError, match="closed the stream"):
        audited(server, SHORT)


def test_tokens_of_another_model_are_named() -> None:
    target = Table(vocabulary=4)
    with pytest.raises(DraftscopeError, match="has 4 tokens: it runs another model"):
        list(sampled(TabularServer(), target, PROMPTS, SHORT, Allowance(), STEPS))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"samples": 0}, "samples = 0"),
        ({"false_alarm": 0.0}, "false alarm = 0"),
        ({"seconds": -1.0}, "seconds = -1"),
        ({"tolerance": 3.0}, "tolerance = 3"),
        ({"concurrency": 1000}, "concurrency = 1000"),
    ],
)
def test_a_wrong_plan_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DraftscopeError, match=words):
        Plan(**changes)


def test_a_plan_allows_what_it_says() -> None:
    assert Plan(tolerance=0.05).allowance.nats == 0.05 and Plan().allowance == Allowance()


def test_texts_that_only_begin_alike_are_not_said_to_be_identical() -> None:
    evidence = SimpleNamespace(identical=0, expected=3e-9)
    assert _repeated(evidence) == "its texts begin alike more often than chance gives"  # type: ignore[arg-type]
    evidence.identical = 1
    assert "1 pair is identical where chance gives 3e-09" in _repeated(evidence)  # type: ignore[arg-type]


@pytest.mark.parametrize(("ties", "words"), [(0, "identical"), (1, "identical except at 1 tie"), (2, "at 2 ties")])
def test_ties_are_counted_in_the_sentence(ties: int, words: str) -> None:
    assert greedy_sentence(GreedyResult(4, 128, 120, ties, 0)).endswith(words)
