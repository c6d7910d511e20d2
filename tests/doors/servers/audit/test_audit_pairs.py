"""Two servers without weights: equal ones are never told apart, mutants are."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from draftscope.servers.adapter import Request, ServerError
from draftscope.servers.audit.plan import Plan
from draftscope.servers.audit.two_servers import Compared, compared, min_accuracy, pairs_sentence
from tests.doors.servers.audit.tabular import TabularServer, argmax_drafts, plain, token_rule
from tests.doors.servers.audit.test_audit import FIXED_SEED, PROMPTS, Failing

PLAN = Plan(samples=600, concurrency=8, seconds=1e9)


def last(writer: TabularServer, other: TabularServer, plan: Plan = PLAN) -> Compared:
    for state in compared(writer, other, PROMPTS, plan):
        found = state
    return found


def test_equal_servers_are_not_told_apart() -> None:
    totals = []
    for number in range(10):
        state = last(
            TabularServer(rule=token_rule, noise=0.02 * (number % 2)),
            TabularServer(rule=plain),
            replace(PLAN, samples=48, tokens=5, seed=1000 * number),
        )
        assert state.ended == "samples", pairs_sentence(state)
        totals.append(state.total)
    assert max(totals) < math.log(10) + 3


def test_no_two_texts_have_a_seed_in_common() -> None:
    """With equal seeds equal servers might write equal texts, which says nothing."""
    asked: list[Request] = []
    server = TabularServer(seed_of=lambda request: asked.append(request) or request.seed)  # type: ignore[func-returns-value]
    last(server, server, replace(PLAN, samples=24))
    assert len(asked) == len({request.seed for request in asked}) == 48


@pytest.mark.parametrize(
    "mutant",
    [TabularServer(rule=argmax_drafts), TabularServer(seed_of=FIXED_SEED), TabularServer(temperature=0.5)],
    ids=["argmax drafts", "one noise for all seeds", "another temperature"],
)
def test_a_mutant_is_told_apart(mutant: TabularServer) -> None:
    state = last(mutant, TabularServer(rule=plain))
    assert state.ended == "difference", pairs_sentence(state)
    assert "differs from the plain server" in pairs_sentence(state) and state.example is not None


def test_what_would_have_been_seen_shrinks_with_the_pairs() -> None:
    few, many = (last(TabularServer(), TabularServer(), replace(PLAN, samples=n)) for n in (40, 200))
    first, second = min_accuracy(few), min_accuracy(many)
    assert first is not None and second is not None and 0.5 < second < first < 1
    assert "would have seen a difference that tells" in pairs_sentence(many)
    none = last(TabularServer(), TabularServer(), replace(PLAN, samples=8))
    assert min_accuracy(none) is None and "too few pairs" in pairs_sentence(none)


def test_a_server_that_fails_ends_the_comparison() -> None:
    server = Failing()
    server.after = 16
    assert last(server, TabularServer()).ended == "failures"
    with pytest.raises(ServerError, match="closed the stream"):
        last(Failing(), TabularServer())
