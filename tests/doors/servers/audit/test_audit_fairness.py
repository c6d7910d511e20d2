"""Every bet of an audit is fair, whatever was written before: E[e] = 1, computed by enumeration of all texts.

With Ville's inequality this is the audit's claim: an exact server is called different with chance a at most, however
often one looks. Each variant of each bet is looked at alone; `total` is their mean with weights that add up to 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from draftscope.servers.audit.bets import BINS
from draftscope.servers.audit.evidence import WEIGHTS, Evidence
from draftscope.servers.audit.facts import Facts, facts_of
from draftscope.servers.audit.plan import Allowance, Plan
from draftscope.servers.audit.two_servers import Compared
from draftscope.servers.audit.warp import Floats, warped
from draftscope.servers.programs.program_list import find
from draftscope.verify.sampling import Sampling

V, END = 4, 3  # tokens; the last one ends a text
ORDER = find("vllm").sampling_order
LOGITS = 1.5 * np.random.default_rng(5).standard_normal((V, V))  # by the token before; a text begins after token 0
EXACT, ALLOWED = Allowance(0.0), Allowance(0.01)
SETTINGS = (Sampling(), Sampling(0.7, 3), Sampling(0.8, 0, 0.9, 0.05))
PASTS: dict[str, list[tuple[int, ...]]] = {
    "nothing": [],
    "one text again and again": [(1, 2)] * 9,
    "one text, then another": [(1, 2)] * 5 + [(2, 0)] * 5,
    "texts that end": [(END,), (1, END), (1, 0)] * 3,
    "any texts": [tuple(map(int, text)) for text in np.random.default_rng(2).integers(0, END, (12, 2))],
}


class Shares:
    """Instead of random numbers: where in a token's own mass its rank falls."""

    def __init__(self, shares: tuple[float, ...]) -> None:
        self._shares = np.array(shares)

    def random(self, count: int) -> Floats:
        return self._shares


def facts(text: tuple[int, ...], shares: tuple[float, ...], sampling: Sampling, allowance: Allowance) -> Facts:
    dice: Any = Shares(shares)
    return facts_of(0, text, LOGITS[[0, *text[:-1]]].copy(), sampling, ORDER, allowance, dice)


def pieces(p: Floats, token: int) -> Iterator[tuple[float, float]]:
    """The parts of a token's mass that lie in different eighths of the ranks: a share in the middle, and its size."""
    above, own = p[p > p[token]].sum(), p[token]
    cuts = [0.0, *((k / BINS - above) / own for k in range(1, BINS) if 0 < k / BINS - above < own), 1.0]
    yield from (((a + b) / 2, b - a) for a, b in pairwise(cuts))


def outcomes(
    tokens: int, sampling: Sampling, allowance: Allowance = EXACT, text: tuple[int, ...] = (), shares: Any = ()
) -> Iterator[tuple[float, Facts]]:
    """All texts of up to so many tokens and all their ranks, each with its chance under the target."""
    if text and (len(text) == tokens or text[-1] == END):
        yield 1.0, facts(text, shares, sampling, allowance)
        return
    p = np.exp(warped(LOGITS[[text[-1] if text else 0]].copy(), sampling, ORDER)[0][0])
    for token in np.flatnonzero(p).tolist():
        for share, size in pieces(p, token):
            for chance, found in outcomes(tokens, sampling, allowance, (*text, token), (*shares, share)):
                yield p[token] * size * chance, found


def after(past: list[tuple[int, ...]], sampling: Sampling, allowance: Allowance, tokens: int) -> Evidence:
    evidence, dice = Evidence(allowance, tokens + 1), np.random.default_rng(7)
    for text in past:
        evidence.take(facts(text[:tokens], tuple(dice.random(len(text[:tokens]))), sampling, allowance))
    return evidence


def wealths(evidence: Evidence) -> Floats:
    """log wealth of every variant of every bet, and of all bets together."""
    bets = (evidence.score, evidence.ranks, evidence.often, evidence.contexts, evidence.repetition)
    return np.concatenate([*(bet.logs.ravel() for bet in bets), [evidence.total]])


def factors(evidence: Evidence, text: Facts) -> Floats:
    """By how much a text multiplies each wealth."""
    later = deepcopy(evidence)
    later.take(text)
    return np.exp(wealths(later) - wealths(evidence))


@pytest.mark.parametrize("past", PASTS)
@pytest.mark.parametrize("sampling", SETTINGS, ids=str)
def test_every_bet_is_fair_given_any_past(sampling: Sampling, past: str) -> None:
    evidence, written = after(PASTS[past], sampling, EXACT, 2), list(outcomes(2, sampling))
    assert sum(chance for chance, _ in written) == pytest.approx(1)
    assert sum(chance * factors(evidence, text) for chance, text in written) == pytest.approx(1, rel=1e-5)
    assert sum(WEIGHTS.values()) == pytest.approx(1)


@pytest.mark.parametrize("past", PASTS)
def test_every_bet_is_fair_to_the_worst_server_that_is_allowed(past: str) -> None:
    """The p' that pays a bet most, of all with chi2(p' || p) <= eta^2 and no logit further off than is allowed."""
    evidence = after(PASTS[past], Sampling(), ALLOWED, 1)
    p, pays = np.zeros(V), np.zeros((V, len(wealths(evidence))))
    for chance, text in outcomes(1, Sampling(), ALLOWED):
        p[text.tokens[0]] += chance
        pays[text.tokens[0]] += chance * factors(evidence, text)
    pays /= p[:, None]
    for pay in pays.T:
        lead = pay - p @ pay
        lead /= max(math.sqrt(p @ lead**2) / ALLOWED.eta, np.abs(lead).max() / math.expm1(ALLOWED.logit), 1e-300)
        worst = p * (1 + lead)
        assert worst.min() > 0 and worst @ pay <= 1 + 1e-6


@pytest.mark.parametrize("sampling", SETTINGS, ids=str)
def test_scores_and_ranks_have_the_mean_and_variance_that_is_claimed(sampling: Sampling) -> None:
    ranks = np.zeros(BINS)
    score = square = claimed = 0.0
    for chance, text in outcomes(1, sampling):
        score += chance * text.score[0]
        square += chance * text.score[0] ** 2
        claimed += chance * text.variance[0]
        ranks[int(text.pit[0] * BINS)] += chance
    assert [score, square] == pytest.approx([0, claimed], abs=1e-12)
    assert ranks == pytest.approx(np.full(BINS, 1 / BINS))


@pytest.mark.parametrize("past", PASTS)
def test_the_bet_on_two_servers_is_fair_given_any_past(past: str) -> None:
    """Either order of two texts is as likely; with an allowance of d, up to (1 + d) / 2."""
    texts = sorted({text.tokens for _, text in outcomes(2, Sampling())})
    for allowance in (EXACT, ALLOWED):
        state = Compared(Plan(tokens=2), allowance=allowance)
        for number, text in enumerate(PASTS[past]):
            state.compare(0, text, texts[number % 3])
        d = allowance.eta * math.sqrt(state.plan.tokens / 2)
        for a in texts:
            for b in texts:
                both = []
                for pair in ((a, b), (b, a)):
                    later = deepcopy(state)
                    later.compare(0, *pair)
                    both.append(np.exp(later.logs - state.logs))
                most = np.maximum(*both) * (1 + d) / 2 + np.minimum(*both) * (1 - d) / 2
                assert (most == pytest.approx(1)) if allowance is EXACT else (most <= 1 + 1e-12).all()
