"""Proves every rule exact by enumeration in rational arithmetic, and shows that every known mistake is caught.

The check is one function, `output_distribution`. From a prefix it enumerates every draft, every outcome of every
uniform and every last token with its exact probability, round after round until `length` tokens are emitted. The result
is the joint distribution of those tokens. Distributions depend on the whole prefix, and `length` is chosen so that most
paths take at least two rounds. Exact means equal to the target's joint distribution, as fractions.

A proposal is a `Siblings`: the children of one node, drawn from q without replacement or deterministic, each with
children of its own. A chain has one child at every node; a leaf has none. Mutations replace a function of
`draftscope.verify.rules` or the way drafts are drawn; the same check must then fail.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftscope.verify import rules

ONE, ZERO = Fraction(1), Fraction(0)
Distribution = list[Fraction]
Tokens = tuple[int, ...]
Joint = dict[Tokens, Fraction]
DistributionAt = Callable[[Tokens], Distribution]  # a language model: the distribution of the next token after a prefix


# Language models over a tiny vocabulary.


def norm(values: Sequence[Fraction | int]) -> Distribution:
    return [Fraction(x) / sum(values) for x in values]


def language(seed: str, vocabulary: int, holes: bool = False) -> DistributionAt:
    """Random rational distributions, a different one after every prefix. With `holes`, some tokens have mass 0."""

    @cache
    def distribution(prefix: Tokens) -> Distribution:
        draw = random.Random(f"{seed} {prefix}")
        values = [draw.randint(0 if holes else 1, 9) for _ in range(vocabulary)]
        return norm(values if any(values) else [1] * vocabulary)

    return distribution


def certain(seed: str, vocabulary: int) -> DistributionAt:
    """All mass on one token after every prefix, as at temperature 0."""
    return cache(lambda prefix: one_hot(random.Random(f"{seed} {prefix}").randrange(vocabulary), vocabulary))


def one_hot(token: int, vocabulary: int) -> Distribution:
    return [Fraction(int(x == token)) for x in range(vocabulary)]


def warped(distribution: DistributionAt, keep: int) -> DistributionAt:
    """Temperature 1/2 (probabilities squared), then top-k: rational, and truncated as by a sampler."""

    def warp(prefix: Tokens) -> Distribution:
        base = distribution(prefix)
        return norm([base[x] ** 2 if x in top(base, keep) else 0 for x in range(len(base))])

    return cache(warp)


def top(distribution: Distribution, count: int) -> Tokens:
    return tuple(sorted(range(len(distribution)), key=lambda x: (-distribution[x], x))[:count])


# Proposals.


@dataclass(frozen=True)
class Shape:
    """How many children a node gets and how: `drawn` from q, or deterministic (`top` of q, or `guess`ed)."""

    kind: str = "drawn"
    below: tuple[Shape, ...] = ()


LEAF = Shape()


def drawn(*below: Shape) -> Shape:
    return Shape("drawn", below)


def best(*below: Shape) -> Shape:
    return Shape("top", below)


def guess(*below: Shape) -> Shape:
    return Shape("guess", below)


def chain(gamma: int) -> Shape:
    return drawn(chain(gamma - 1)) if gamma else LEAF


@dataclass(frozen=True)
class Siblings:
    """The children of one node in draw order. `q` is the distribution they were drawn from, empty if deterministic."""

    tokens: Tokens
    below: tuple[Siblings, ...]
    q: Distribution = field(compare=False)


Draw = Callable[[Distribution, int], Iterator[tuple[Fraction, Tokens]]]


def draws(q: Distribution, count: int) -> Iterator[tuple[Fraction, Tokens]]:
    """Every way to draw `count` tokens from q without replacement; fewer if q has fewer possible tokens."""
    if not count or not any(q):
        yield ONE, ()
        return
    for token in [x for x, mass in enumerate(q) if mass]:
        rest = norm(rest) if any(rest := [mass if x != token else ZERO for x, mass in enumerate(q)]) else rest
        for probability, more in draws(rest, count - 1):
            yield q[token] * probability, (token, *more)


def guesses(prefix: Tokens, vocabulary: int, count: int) -> Tokens:
    """Children unrelated to any draft distribution, as those of an n-gram: distinct tokens fixed by the prefix."""
    return tuple(random.Random(f"guess {prefix}").sample(range(vocabulary), count))


@dataclass(frozen=True)
class Drafter:
    """Draws from `q` and is verified with `claimed`: the same distribution, unless the drafter is a mutation.

    It stops drafting at a prefix for which `stops` is true: a length that depends on the tokens drawn so far.
    """

    q: DistributionAt
    shape: Shape
    claimed: DistributionAt | None = None
    draw: Draw = draws
    stops: Callable[[Tokens], bool] = lambda _: False

    def propose(self, prefix: Tokens, shape: Shape) -> Iterator[tuple[Fraction, Siblings]]:
        """Every tree that could be drafted after a prefix, with its probability."""
        q = self.q(prefix)
        count = 0 if self.stops(prefix) else len(shape.below)
        if shape.kind == "drawn":
            options, distribution = list(self.draw(q, count)), (self.claimed or self.q)(prefix)
        else:
            chosen = top(q, count) if shape.kind == "top" else guesses(prefix, len(q), count)
            options, distribution = [(ONE, chosen)], []
        for probability, tokens in options:
            options_below = [list(self.propose((*prefix, x), s)) for x, s in zip(tokens, shape.below, strict=False)]
            for choice in itertools.product(*options_below):
                joint = math.prod([p for p, _ in choice], start=probability)
                yield joint, Siblings(tokens, tuple(below for _, below in choice), distribution)


# Verification: each function yields every outcome of a round: the emitted tokens and their probability.

Verify = Callable[[DistributionAt, Tokens, Siblings], Iterator[tuple[Fraction, Tokens]]]


def verify_tree(p: DistributionAt, prefix: Tokens, siblings: Siblings) -> Iterator[tuple[Fraction, Tokens]]:
    """RRSw for drawn children, the target's own draw for deterministic ones; with one child this is the token rule."""
    distribution = p(prefix)
    if not siblings.q:
        yield from _verify_deterministic(p, prefix, siblings)
        return
    rows, last = rules.sibling_rows(distribution, siblings.q, siblings.tokens)
    reached = ONE
    for token, below, row in zip(siblings.tokens, siblings.below, rows, strict=True):
        for probability, emitted in verify_tree(p, (*prefix, token), below):
            yield reached * row.threshold * probability, (token, *emitted)
        reached *= 1 - row.threshold
    for token, mass in enumerate(last):
        yield reached * mass, (token,)


def _verify_deterministic(p: DistributionAt, prefix: Tokens, siblings: Siblings) -> Iterator[tuple[Fraction, Tokens]]:
    assert len(set(siblings.tokens)) == len(siblings.tokens)
    for token, mass in enumerate(p(prefix)):
        child = rules.deterministic_child(siblings.tokens, token)
        if child is None:
            yield mass, (token,)
            continue
        for probability, emitted in verify_tree(p, (*prefix, token), siblings.below[child]):
            yield mass * probability, (token, *emitted)


def rows_of(
    p: DistributionAt, prefix: Tokens, siblings: Siblings
) -> tuple[list[Distribution], list[Distribution], Tokens]:
    """A chain as rows: p after each of its prefixes, q after all but the last, and the drafted tokens."""
    q_rows: list[Distribution] = []
    tokens: list[int] = []
    while siblings.tokens:
        q_rows.append(siblings.q)
        tokens.extend(siblings.tokens)
        (siblings,) = siblings.below
    p_rows = [p((*prefix, *tokens[:i])) for i in range(len(tokens) + 1)]
    return p_rows, q_rows, tuple(tokens)


def uniform_outcomes(thresholds: Sequence[Fraction]) -> Iterator[tuple[Fraction, list[Fraction]]]:
    """Every outcome of one uniform a threshold h: 0 stands for all of [0, h), which passes, and h for [h, 1)."""
    for passes in itertools.product([True, False], repeat=len(thresholds)):
        probability = math.prod(
            [h if passed else 1 - h for h, passed in zip(thresholds, passes, strict=True)], start=ONE
        )
        if probability:
            yield probability, [ZERO if passed else h for h, passed in zip(thresholds, passes, strict=True)]


def verify_token_chain(p: DistributionAt, prefix: Tokens, siblings: Siblings) -> Iterator[tuple[Fraction, Tokens]]:
    p_rows, q_rows, tokens = rows_of(p, prefix, siblings)
    thresholds = [rules.accept_probability(*row) for row in zip(p_rows[:-1], q_rows, tokens, strict=True)]
    for probability, uniforms in uniform_outcomes(thresholds):
        tau = rules.token_accepted(thresholds, uniforms)
        last = rules.residual(p_rows[tau], q_rows[tau]) if tau < len(tokens) else p_rows[tau]
        for token, mass in enumerate(last):
            yield probability * mass, (*tokens[:tau], token)


def verify_block(p: DistributionAt, prefix: Tokens, siblings: Siblings) -> Iterator[tuple[Fraction, Tokens]]:
    p_rows, q_rows, tokens = rows_of(p, prefix, siblings)
    _, thresholds = rules.block_thresholds(p_rows, q_rows, tokens)
    for probability, uniforms in uniform_outcomes(thresholds):
        tau = rules.block_accepted(thresholds, uniforms)
        for token, mass in enumerate(rules.block_last(p_rows, q_rows, tokens, tau)):
            yield probability * mass, (*tokens[:tau], token)


# The check.


def target_distribution(p: DistributionAt, length: int) -> Joint:
    joint: Joint = {(): ONE}
    for _ in range(length):
        joint = {(*seen, x): mass * m for seen, mass in joint.items() for x, m in enumerate(p(seen)) if m}
    return joint


def round_distribution(p: DistributionAt, drafter: Drafter, verify: Verify, prefix: Tokens) -> Joint:
    """The distribution of the tokens that one round emits after a prefix."""
    joint: Joint = defaultdict(Fraction)
    for drafted, siblings in drafter.propose(prefix, drafter.shape):
        for verified, emitted in verify(p, prefix, siblings):
            if verified:
                joint[emitted] += drafted * verified
    return joint


def output_distribution(p: DistributionAt, drafter: Drafter, verify: Verify, length: int) -> Joint:
    """The joint distribution of the first `length` tokens, over as many rounds as needed, each with fresh uniforms."""
    joint: Joint = defaultdict(Fraction)
    unfinished: list[tuple[Tokens, Fraction]] = [((), ONE)]
    rounds = cache(lambda prefix: round_distribution(p, drafter, verify, prefix))
    while unfinished:
        prefix, mass = unfinished.pop()
        for emitted, probability in rounds(prefix).items():
            text = prefix + emitted
            if len(text) < length:
                unfinished.append((text, mass * probability))
            else:
                joint[text[:length]] += mass * probability
    return dict(joint)


def mean_emitted(p: DistributionAt, drafter: Drafter, verify: Verify) -> Fraction:
    return sum(
        (len(emitted) * mass for emitted, mass in round_distribution(p, drafter, verify, ()).items()), start=ZERO
    )


PAIRS: dict[str, tuple[DistributionAt, DistributionAt]] = {
    "random": (language("p", 3), language("q", 3)),
    "four tokens": (language("p4", 4, holes=True), language("q4", 4)),
    "q with zeros": (language("p", 3), language("q holes", 3, holes=True)),
    "both truncated": (warped(language("p", 3), 2), warped(language("q", 3), 2)),
    "q = p": (language("p", 3), language("p", 3)),
    "q = p on some prefixes": (language("p", 3), lambda s: language("q" if len(s) % 2 else "p", 3)(s)),
    "disjoint": (lambda s: [*language("p", 2)(s), ZERO, ZERO], lambda s: [ZERO, ZERO, *language("q", 2)(s)]),
    "p a single token": (certain("p", 3), language("q", 3)),
    "q a single token": (language("p", 3), certain("q", 3)),
    "both a single token": (certain("p", 3), certain("q", 3)),
}
pairs = pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())

TREES = {
    "leaf": LEAF,
    "chain of 3": chain(3),
    "two children": drawn(LEAF, LEAF),
    "three children": drawn(LEAF, LEAF, LEAF),
    "2 x 2": drawn(chain(1), drawn(LEAF, LEAF)),
    "second child deeper": drawn(LEAF, drawn(drawn(LEAF, LEAF))),
    "top-k": best(best(LEAF, LEAF), best(LEAF)),
    "top-k chain": best(best(best(LEAF))),
    "n-gram": guess(guess(guess(LEAF))),
    "guessed tree": guess(guess(LEAF, LEAF), LEAF),
    "drawn above top-k": drawn(best(LEAF, LEAF), best(LEAF)),
    "top-k above drawn": best(drawn(LEAF, LEAF), drawn(drawn(LEAF))),
    "drawn beside guessed": drawn(drawn(LEAF, LEAF), guess(LEAF)),
}
trees = pytest.mark.parametrize("shape", TREES.values(), ids=TREES.keys())


@pairs
@trees
def test_trees_reproduce_the_target_distribution(pair: tuple[DistributionAt, DistributionAt], shape: Shape) -> None:
    p, q = pair
    length = 3 if len(p(())) < 4 else 2
    assert output_distribution(p, Drafter(q, shape), verify_tree, length) == target_distribution(p, length)


@pairs
@pytest.mark.parametrize("gamma", [1, 2, 3])
@pytest.mark.parametrize("verify", [verify_token_chain, verify_block])
def test_chains_reproduce_the_target_distribution(
    pair: tuple[DistributionAt, DistributionAt], gamma: int, verify: Verify
) -> None:
    p, q = pair
    assert output_distribution(p, Drafter(q, chain(gamma)), verify, gamma + 1) == target_distribution(p, gamma + 1)


@pairs
@pytest.mark.parametrize("verify", [verify_token_chain, verify_block])
@pytest.mark.parametrize("stops_at", [0, 1, 2])
def test_a_draft_length_chosen_while_drafting_stays_exact(
    pair: tuple[DistributionAt, DistributionAt], verify: Verify, stops_at: int
) -> None:
    """Whether another token is drafted may depend on the tokens drawn so far and on the position."""
    p, q = pair
    drafter = Drafter(q, chain(3), stops=lambda prefix: bool(prefix) and (sum(prefix) + len(prefix)) % 3 == stops_at)
    assert output_distribution(p, drafter, verify, 4) == target_distribution(p, 4)


@pytest.mark.parametrize("verify", [verify_token_chain, verify_block])
def test_a_token_drawn_and_then_not_proposed_is_caught(verify: Verify) -> None:
    """The classic mistake of adaptive draft lengths: a token is drawn, found improbable, and dropped."""

    def dropped(distribution: Distribution, count: int) -> Iterator[tuple[Fraction, Tokens]]:
        for probability, tokens in draws(distribution, count):
            yield probability, tuple(x for x in tokens if distribution[x] * len(distribution) > 1)

    p, q = PAIRS["random"]
    assert not is_exact(p, Drafter(q, chain(2), draw=dropped), verify)


def test_drafting_the_whole_vocabulary_always_accepts_a_child() -> None:
    p, q = PAIRS["four tokens"]
    drafter = Drafter(q, drawn(LEAF, LEAF, LEAF, LEAF))
    assert output_distribution(p, drafter, verify_tree, 2) == target_distribution(p, 2)
    assert mean_emitted(p, drafter, verify_tree) == 2


@pairs
def test_one_drawn_child_is_the_token_rule(pair: tuple[DistributionAt, DistributionAt]) -> None:
    p, q = pair
    drafter = Drafter(q, chain(2))
    assert round_distribution(p, drafter, verify_tree, ()) == round_distribution(p, drafter, verify_token_chain, ())


@pairs
def test_a_deterministic_child_is_the_token_rule_with_a_one_hot_q(pair: tuple[DistributionAt, DistributionAt]) -> None:
    p, q = pair

    def one_hot_q(prefix: Tokens) -> Distribution:
        return one_hot(top(q(prefix), 1)[0], len(q(prefix)))

    by_draw = round_distribution(p, Drafter(q, best(best(LEAF))), verify_tree, ())
    assert by_draw == round_distribution(p, Drafter(one_hot_q, chain(2)), verify_token_chain, ())


@pairs
def test_block_verification_emits_at_least_as_many_tokens_as_the_token_rule(
    pair: tuple[DistributionAt, DistributionAt],
) -> None:
    p, q = pair
    drafter = Drafter(q, chain(3))
    assert mean_emitted(p, drafter, verify_block) >= mean_emitted(p, drafter, verify_token_chain)


@pytest.mark.parametrize("verify", [verify_token_chain, verify_block, verify_tree])
def test_q_equal_to_p_accepts_all_and_a_disjoint_q_nothing(verify: Verify) -> None:
    p, q = PAIRS["q = p"]
    assert mean_emitted(p, Drafter(q, chain(3)), verify) == 4
    p, q = PAIRS["disjoint"]
    assert mean_emitted(p, Drafter(q, chain(3)), verify) == 1


# Mutations: each must change the output distribution.


def argmax_verified_with_softmax(q: Distribution, count: int) -> Iterator[tuple[Fraction, Tokens]]:
    yield ONE, top(q, count)


def likelier_of_two(q: Distribution, count: int) -> Iterator[tuple[Fraction, Tokens]]:
    """A reranked tree: draws twice as many, keeps the most probable in draw order, and drops the others."""
    for probability, tokens in draws(q, 2 * count):
        kept = sorted(tokens, key=lambda x: (-q[x], x))[:count]
        yield probability, tuple(x for x in tokens if x in kept)


def sorted_by_probability(q: Distribution, count: int) -> Iterator[tuple[Fraction, Tokens]]:
    for probability, tokens in draws(q, count):
        yield probability, tuple(sorted(tokens, key=lambda x: (-q[x], x)))


def rounded(distribution: DistributionAt) -> DistributionAt:
    """Probabilities rounded to the nearest 1/16, at least 1/16."""
    return lambda prefix: [max(Fraction(round(x * 16), 16), Fraction(1, 16)) for x in distribution(prefix)]


P, Q = PAIRS["random"]
PAIR_DRAWN = drawn(LEAF, LEAF)
RULES = {"token": (verify_token_chain, chain(2)), "block": (verify_block, chain(2)), "rrsw": (verify_tree, PAIR_DRAWN)}
every_rule = pytest.mark.parametrize(("verify", "shape"), RULES.values(), ids=RULES.keys())


def is_exact(p: DistributionAt, drafter: Drafter, verify: Verify) -> bool:
    output = output_distribution(p, drafter, verify, 3)
    return {tokens: mass for tokens, mass in output.items() if mass} == target_distribution(p, 3)


@every_rule
@pytest.mark.parametrize("draw", [argmax_verified_with_softmax, likelier_of_two])
def test_drafts_not_drawn_from_the_q_they_are_verified_with_are_caught(
    verify: Verify, shape: Shape, draw: Draw
) -> None:
    p, q = PAIRS["four tokens"]
    assert is_exact(p, Drafter(q, shape), verify)
    assert not is_exact(p, Drafter(q, shape, draw=draw), verify)


def test_siblings_verified_in_sorted_order_are_caught() -> None:
    assert is_exact(P, Drafter(Q, PAIR_DRAWN), verify_tree)
    assert not is_exact(P, Drafter(Q, PAIR_DRAWN, draw=sorted_by_probability), verify_tree)


@every_rule
def test_an_unwarped_q_is_caught(verify: Verify, shape: Shape) -> None:
    p, q = PAIRS["both truncated"]
    assert is_exact(p, Drafter(q, shape), verify)
    assert not is_exact(p, Drafter(q, shape, claimed=language("q", 3)), verify)


@every_rule
def test_a_rounded_q_is_caught(verify: Verify, shape: Shape) -> None:
    assert is_exact(P, Drafter(Q, shape), verify)
    assert not is_exact(P, Drafter(Q, shape, claimed=rounded(Q)), verify)


@every_rule
def test_drawing_from_p_after_a_rejection_is_caught(
    verify: Verify, shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_exact(P, Drafter(Q, shape), verify)
    monkeypatch.setattr(rules, "residual", lambda p, *_: list(p))
    assert not is_exact(P, Drafter(Q, shape), verify)


def test_a_block_residual_without_its_weight_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    (p, q), right = PAIRS["four tokens"], rules.residual
    monkeypatch.setattr(rules, "residual", lambda p, q, *_: right(p, q))
    assert not is_exact(p, Drafter(q, chain(2)), verify_block)


def test_reusing_the_drafts_uniform_for_acceptance_is_caught() -> None:
    """One number u draws the draft, by inverting the cumulative distribution, and then decides its acceptance."""

    def verify(p: DistributionAt, prefix: Tokens, siblings: Siblings) -> Iterator[tuple[Fraction, Tokens]]:
        distribution, q, (token,) = p(prefix), siblings.q, siblings.tokens
        start = sum(q[:token], start=ZERO)
        below = max(min(rules.accept_probability(distribution, q, token), start + q[token]) - start, ZERO) / q[token]
        yield below, (token,)
        for x, mass in enumerate(rules.residual(distribution, q)):
            yield (1 - below) * mass, (x,)

    assert not is_exact(P, Drafter(Q, chain(1)), verify)


@pytest.mark.parametrize(
    "wrong",
    [lambda q, _: list(q), lambda q, token: [ZERO if x == token else y for x, y in enumerate(q)]],
    ids=["q unchanged", "q not renormalised"],
)
def test_a_wrong_q_after_a_rejection_is_caught(
    wrong: Callable[[Distribution, int], Distribution], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_exact(P, Drafter(Q, PAIR_DRAWN), verify_tree)
    monkeypatch.setattr(rules, "without", wrong)
    assert not is_exact(P, Drafter(Q, PAIR_DRAWN), verify_tree)


def test_a_uniform_shared_by_siblings_is_caught() -> None:
    """The second sibling reuses the uniform that rejected the first, which is at or above the first threshold."""

    def verify(p: DistributionAt, prefix: Tokens, siblings: Siblings) -> Iterator[tuple[Fraction, Tokens]]:
        rows, last = rules.sibling_rows(p(prefix), siblings.q, siblings.tokens)
        floor = ZERO
        for token, row in zip(siblings.tokens, rows, strict=True):
            yield max(row.threshold - floor, ZERO), (token,)
            floor = max(floor, row.threshold)
        for token, mass in enumerate(last):
            yield (1 - floor) * mass, (token,)

    assert not is_exact(P, Drafter(Q, PAIR_DRAWN), verify)


# Random numbers keyed by position: the next round reuses numbers that decided this one.

Interval = tuple[Fraction, Fraction]
Key = tuple[str, int]  # ("uniform" or "draft", position in the text)
Known = dict[Key, Interval]  # the interval in which a number used before lies, uniformly


def look(known: Known, key: Key, cuts: Sequence[Fraction]) -> Iterator[tuple[Fraction, int, Known]]:
    """Compares a number with `cuts`: for each piece of [0, 1), its probability, its index and what is known then."""
    low, high = known.get(key, (ZERO, ONE))
    for piece, (left, right) in enumerate(itertools.pairwise([ZERO, *cuts, ONE])):
        left, right = max(left, low), min(right, high)
        if left < right:
            yield (right - left) / (high - low), piece, {**known, key: (left, right)}


def drafted_by_position(
    q: DistributionAt, prefix: Tokens, gamma: int, known: Known
) -> Iterator[tuple[Fraction, Tokens, Known]]:
    """Chains drawn by inverting the cumulative distribution at the number of each position."""
    if not gamma:
        yield ONE, (), known
        return
    cuts = list(itertools.accumulate(q(prefix)))[:-1]
    for mass, token, after in look(known, ("draft", len(prefix)), cuts):
        for probability, more, final in drafted_by_position(q, (*prefix, token), gamma - 1, after):
            yield mass * probability, (token, *more), final


Verification = tuple[Fraction, int, Known]  # probability, tau, the intervals known afterwards


def block_by_position(
    p_rows: list[Distribution], q_rows: list[Distribution], tokens: Tokens, at: int, known: Known
) -> Iterator[Verification]:
    """Block verification reads the uniforms backwards from the last draft, and stops at one that passes."""
    _, thresholds = rules.block_thresholds(p_rows, q_rows, tokens)

    def down_from(i: int, mass: Fraction, known: Known) -> Iterator[Verification]:
        if not i:
            yield mass, 0, known
            return
        for probability, failed, after in look(known, ("uniform", at + i - 1), [thresholds[i - 1]]):
            verification = mass * probability, i, after
            yield from down_from(i - 1, mass * probability, after) if failed else [verification]

    yield from down_from(len(tokens), ONE, known)


def token_by_position(
    p_rows: list[Distribution], q_rows: list[Distribution], tokens: Tokens, at: int, known: Known
) -> Iterator[Verification]:
    """The token rule stops at the first rejection, so it does not read the uniforms of later positions."""

    def up_from(i: int, mass: Fraction, known: Known) -> Iterator[Verification]:
        if i == len(tokens):
            yield mass, i, known
            return
        threshold = rules.accept_probability(p_rows[i], q_rows[i], tokens[i])
        for probability, failed, after in look(known, ("uniform", at + i), [threshold]):
            verification = mass * probability, i, after
            yield from [verification] if failed else up_from(i + 1, mass * probability, after)

    yield from up_from(0, ONE, known)


def keyed_by_position(verify: Callable[..., Iterator[Verification]], gamma: int, reused: str, length: int = 4) -> bool:
    """Whether the output is still exact if the random numbers of one purpose are keyed by position, not by round.

    Exact arithmetic, as in `output_distribution`: each number already read is carried to the next round as an interval.
    """
    p, q = language("p", 2), language("q", 2)
    joint: Joint = defaultdict(Fraction)

    def round_from(prefix: Tokens, known: Known, mass: Fraction) -> None:
        if len(prefix) >= length:
            joint[prefix[:length]] += mass
            return
        for drafted, tokens, seen in drafted_by_position(q, prefix, gamma, known):
            p_rows = [p(prefix + tokens[:i]) for i in range(gamma + 1)]
            q_rows = [q(prefix + tokens[:i]) for i in range(gamma)]
            for verified, tau, after in verify(p_rows, q_rows, tokens, len(prefix), seen):
                kept = {key: interval for key, interval in after.items() if key[0] == reused}
                last = rules.block_last if verify is block_by_position else last_of_tokens
                for token, m in enumerate(last(p_rows, q_rows, tokens, tau)):
                    if m:
                        round_from((*prefix, *tokens[:tau], token), kept, mass * drafted * verified * m)

    round_from((), {}, ONE)
    assert sum(joint.values()) == 1
    return joint == target_distribution(p, length)


def last_of_tokens(p_rows: list[Distribution], q_rows: list[Distribution], tokens: Tokens, tau: int) -> Distribution:
    return rules.residual(p_rows[tau], q_rows[tau]) if tau < len(tokens) else p_rows[tau]


@pytest.mark.parametrize("reused", ["uniform", "draft"])
def test_random_numbers_keyed_by_position_are_caught_under_block_verification(reused: str) -> None:
    assert keyed_by_position(block_by_position, 3, reused="none")
    assert not keyed_by_position(block_by_position, 3, reused)


@pytest.mark.parametrize("reused", ["uniform", "draft"])
def test_random_numbers_keyed_by_position_are_harmless_if_none_is_read_twice(reused: str) -> None:
    """These rules read nothing beyond the last emitted token, so the failure above is due to reuse alone."""
    assert keyed_by_position(token_by_position, 3, reused)
    assert keyed_by_position(block_by_position, 1, reused)


# Single rules on random distributions.


@st.composite
def distributions(draw: st.DrawFn, count: int) -> tuple[Distribution, ...]:
    size = draw(st.integers(2, 4))
    values = st.lists(st.integers(0, 6), min_size=size, max_size=size).filter(any)
    return tuple(norm(draw(values)) for _ in range(count))


@given(distributions(2))
@settings(max_examples=60, deadline=None)
def test_the_acceptance_rate_is_the_overlap_of_the_distributions(both: tuple[Distribution, ...]) -> None:
    p, q = both
    alpha = sum(y * rules.accept_probability(p, q, x) for x, y in enumerate(q) if y)
    distance = sum(abs(x - y) for x, y in zip(p, q, strict=True)) / 2
    assert alpha == sum(map(min, p, q)) == 1 - distance


@given(distributions(2), st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_siblings_reproduce_the_target_distribution(both: tuple[Distribution, ...], count: int) -> None:
    p, q = both
    drafter = Drafter(lambda _: q, drawn(*[LEAF] * min(count, len(q))))
    assert output_distribution(lambda _: p, drafter, verify_tree, 1) == target_distribution(lambda _: p, 1)


@given(distributions(6))
@settings(max_examples=60, deadline=None)
def test_blocks_reproduce_the_target_distribution(six: tuple[Distribution, ...]) -> None:
    def p(prefix: Tokens) -> Distribution:
        return six[len(prefix) % 3]

    drafter = Drafter(lambda prefix: six[3 + len(prefix) % 3], chain(2))
    assert output_distribution(p, drafter, verify_block, 3) == target_distribution(p, 3)


@given(distributions(2))
@settings(max_examples=60, deadline=None)
def test_a_residual_is_a_distribution_on_the_support_of_p(both: tuple[Distribution, ...]) -> None:
    p, q = both
    left = rules.residual(p, q)
    assert sum(left) == 1
    assert all(not x or y for x, y in zip(left, p, strict=True))
    assert left == p if p == q else all(not x for x, a, b in zip(left, p, q, strict=True) if a <= b)


@given(distributions(2))
@settings(max_examples=60, deadline=None)
def test_floats_agree_with_fractions(both: tuple[Distribution, ...]) -> None:
    p, q = both
    order = top(q, sum(map(bool, q)))
    exact, exact_last = rules.sibling_rows(p, q, order)
    floats, last = rules.sibling_rows([float(x) for x in p], [float(x) for x in q], order)
    reached = ONE
    for a, b in zip(exact, floats, strict=True):
        if reached < Fraction(1, 10**6):
            return  # a sibling that is almost never reached may have another residual through rounding
        assert float(a.threshold) == pytest.approx(b.threshold, abs=1e-9)
        reached *= 1 - a.threshold
    if reached:
        assert [float(x) for x in exact_last] == pytest.approx(last, abs=1e-9)


def test_edge_cases_of_the_single_rules() -> None:
    half, certainly = [Fraction(1, 2)] * 2, [ONE, ZERO]
    assert rules.residual(half, half) == half
    assert rules.without(certainly, 0) == [ZERO, ZERO]
    assert rules.without(half, 0) == [ZERO, ONE]
    assert rules.sibling_rows(half, certainly, [])[1] == half
    assert rules.deterministic_child([4, 2], 2) == 1
    assert rules.deterministic_child([4, 2], 3) is None
    with pytest.raises(ValueError, match="token 1 has probability 0 under q"):
        rules.accept_probability(half, certainly, 1)


def test_a_uniform_passes_only_below_its_threshold() -> None:
    assert rules.token_accepted([ONE, ZERO, ONE], [Fraction(1, 2), ZERO, ZERO]) == 1
    assert rules.block_accepted([ZERO, Fraction(1, 2), ZERO], [ZERO, Fraction(1, 3), ZERO]) == 2
    assert rules.block_accepted([ZERO, ZERO], [ZERO, ZERO]) == 0
    assert rules.block_accepted([], []) == rules.token_accepted([], []) == 0
