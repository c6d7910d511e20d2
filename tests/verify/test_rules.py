"""Every rule proved exact by enumeration in rational arithmetic, and every known way of breaking it seen to break.

The check is one function, `output_law`: from a prefix it enumerates every draft, every outcome of every coin and every
last token with its exact probability, round after round until `length` tokens stand, and so yields the joint law of
those tokens. Laws depend on the whole prefix, and a round of two tokens is followed by another one: three tokens cross
at least two rounds on most paths. Exact means equal to the target's own joint law, as fractions.

What is proposed is a `Family`: the children of one node, drawn from q without replacement or chosen for certain, each
with a family below it. A chain is a family of one child; an empty family is a leaf. Mutations replace a function of
`draftscope.verify.rules` or the way drafts are made, and run through the same check: it must tell.
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
Law = list[Fraction]
Tokens = tuple[int, ...]
Joint = dict[Tokens, Fraction]
LawAt = Callable[[Tokens], Law]  # a language model: the law of the next token after a prefix


# Language models over a tiny vocabulary.


def norm(values: Sequence[Fraction | int]) -> Law:
    return [Fraction(x) / sum(values) for x in values]


def language(seed: str, vocabulary: int, holes: bool = False) -> LawAt:
    """Random rational laws, a different one after every prefix; with `holes`, some tokens have probability 0."""

    @cache
    def law(prefix: Tokens) -> Law:
        draw = random.Random(f"{seed} {prefix}")
        values = [draw.randint(0 if holes else 1, 9) for _ in range(vocabulary)]
        return norm(values if any(values) else [1] * vocabulary)

    return law


def certain(seed: str, vocabulary: int) -> LawAt:
    """A law of a single token after every prefix: what temperature 0 leaves."""
    return cache(lambda prefix: one_hot(random.Random(f"{seed} {prefix}").randrange(vocabulary), vocabulary))


def one_hot(token: int, vocabulary: int) -> Law:
    return [Fraction(int(x == token)) for x in range(vocabulary)]


def warped(law: LawAt, keep: int) -> LawAt:
    """Temperature 1/2 (probabilities squared), then top-k: rational, and truncated as a sampler's laws are."""

    def warp(prefix: Tokens) -> Law:
        base = law(prefix)
        return norm([base[x] ** 2 if x in top(base, keep) else 0 for x in range(len(base))])

    return cache(warp)


def top(law: Law, count: int) -> Tokens:
    return tuple(sorted(range(len(law)), key=lambda x: (-law[x], x))[:count])


# What is proposed.


@dataclass(frozen=True)
class Shape:
    """How many children a node gets and of which kind: `drawn` from q, or for certain (`top` of q, or `guess`ed)."""

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
class Family:
    """The children of one node in draw order; `q` is the law they were drawn from, empty where they were chosen."""

    tokens: Tokens
    below: tuple[Family, ...]
    q: Law = field(compare=False)


Draw = Callable[[Law, int], Iterator[tuple[Fraction, Tokens]]]


def draws(q: Law, count: int) -> Iterator[tuple[Fraction, Tokens]]:
    """Every way to draw `count` tokens from q without replacement; fewer where q has no more tokens."""
    if not count or not any(q):
        yield ONE, ()
        return
    for token in [x for x, mass in enumerate(q) if mass]:
        rest = norm(rest) if any(rest := [mass if x != token else ZERO for x, mass in enumerate(q)]) else rest
        for probability, more in draws(rest, count - 1):
            yield q[token] * probability, (token, *more)


def guesses(prefix: Tokens, vocabulary: int, count: int) -> Tokens:
    """Children that no law of the draft's has to do with, as an n-gram's: any distinct tokens, fixed by the prefix."""
    return tuple(random.Random(f"guess {prefix}").sample(range(vocabulary), count))


@dataclass(frozen=True)
class Drafter:
    """Draws from `q` and is judged with `claimed`: the same law, unless the drafter is a mutation.

    It drafts no further below a prefix that `stops` it: a length chosen while drafting, from what was drawn so far.
    """

    q: LawAt
    shape: Shape
    claimed: LawAt | None = None
    draw: Draw = draws
    stops: Callable[[Tokens], bool] = lambda _: False

    def propose(self, prefix: Tokens, shape: Shape) -> Iterator[tuple[Fraction, Family]]:
        """Every tree that could be drafted after a prefix, with its probability."""
        q = self.q(prefix)
        count = 0 if self.stops(prefix) else len(shape.below)
        if shape.kind == "drawn":
            options, law = list(self.draw(q, count)), (self.claimed or self.q)(prefix)
        else:
            chosen = top(q, count) if shape.kind == "top" else guesses(prefix, len(q), count)
            options, law = [(ONE, chosen)], []
        for probability, tokens in options:
            families = [list(self.propose((*prefix, x), s)) for x, s in zip(tokens, shape.below, strict=False)]
            for choice in itertools.product(*families):
                below = math.prod([p for p, _ in choice], start=probability)
                yield below, Family(tokens, tuple(family for _, family in choice), law)


# Judging: each of these yields every outcome of a round, the tokens that it emits with their probability.

Judge = Callable[[LawAt, Tokens, Family], Iterator[tuple[Fraction, Tokens]]]


def judge_tree(p: LawAt, prefix: Tokens, family: Family) -> Iterator[tuple[Fraction, Tokens]]:
    """RRSw where children were drawn, the target's own token where they were chosen; one child is the token rule."""
    law = p(prefix)
    if not family.q:
        yield from _judge_chosen(p, prefix, family)
        return
    rows, last = rules.faced(law, family.q, family.tokens)
    reached = ONE
    for token, below, row in zip(family.tokens, family.below, rows, strict=True):
        for probability, emitted in judge_tree(p, (*prefix, token), below):
            yield reached * row.threshold * probability, (token, *emitted)
        reached *= 1 - row.threshold
    for token, mass in enumerate(last):
        yield reached * mass, (token,)


def _judge_chosen(p: LawAt, prefix: Tokens, family: Family) -> Iterator[tuple[Fraction, Tokens]]:
    assert len(set(family.tokens)) == len(family.tokens)
    for token, mass in enumerate(p(prefix)):
        child = rules.deterministic_child(family.tokens, token)
        if child is None:
            yield mass, (token,)
            continue
        for probability, emitted in judge_tree(p, (*prefix, token), family.below[child]):
            yield mass * probability, (token, *emitted)


def rows_of(p: LawAt, prefix: Tokens, family: Family) -> tuple[list[Law], list[Law], Tokens]:
    """A chain as rows: p at every one of its prefixes, q at all but the last, and the drafted tokens."""
    q_rows: list[Law] = []
    tokens: list[int] = []
    while family.tokens:
        q_rows.append(family.q)
        tokens.extend(family.tokens)
        (family,) = family.below
    p_rows = [p((*prefix, *tokens[:i])) for i in range(len(tokens) + 1)]
    return p_rows, q_rows, tuple(tokens)


def toss(thresholds: Sequence[Fraction]) -> Iterator[tuple[Fraction, list[Fraction]]]:
    """Every outcome of one coin for each threshold: a coin that passes stands for [0, h), one that fails for [h, 1)."""
    for passes in itertools.product([True, False], repeat=len(thresholds)):
        probability = math.prod(
            [h if passed else 1 - h for h, passed in zip(thresholds, passes, strict=True)], start=ONE
        )
        if probability:
            yield probability, [ZERO if passed else h for h, passed in zip(thresholds, passes, strict=True)]


def judge_token_chain(p: LawAt, prefix: Tokens, family: Family) -> Iterator[tuple[Fraction, Tokens]]:
    p_rows, q_rows, tokens = rows_of(p, prefix, family)
    thresholds = [rules.accept_probability(*row) for row in zip(p_rows[:-1], q_rows, tokens, strict=True)]
    for probability, coins in toss(thresholds):
        tau = rules.token_accepted(thresholds, coins)
        last = rules.residual(p_rows[tau], q_rows[tau]) if tau < len(tokens) else p_rows[tau]
        for token, mass in enumerate(last):
            yield probability * mass, (*tokens[:tau], token)


def judge_block(p: LawAt, prefix: Tokens, family: Family) -> Iterator[tuple[Fraction, Tokens]]:
    p_rows, q_rows, tokens = rows_of(p, prefix, family)
    _, thresholds = rules.block_thresholds(p_rows, q_rows, tokens)
    for probability, coins in toss(thresholds):
        tau = rules.block_accepted(thresholds, coins)
        for token, mass in enumerate(rules.block_last(p_rows, q_rows, tokens, tau)):
            yield probability * mass, (*tokens[:tau], token)


# The check.


def target_law(p: LawAt, length: int) -> Joint:
    joint: Joint = {(): ONE}
    for _ in range(length):
        joint = {(*seen, x): mass * m for seen, mass in joint.items() for x, m in enumerate(p(seen)) if m}
    return joint


def round_law(p: LawAt, drafter: Drafter, judge: Judge, prefix: Tokens) -> Joint:
    """The law of what one round emits after a prefix."""
    joint: Joint = defaultdict(Fraction)
    for drafted, family in drafter.propose(prefix, drafter.shape):
        for judged, emitted in judge(p, prefix, family):
            if judged:
                joint[emitted] += drafted * judged
    return joint


def output_law(p: LawAt, drafter: Drafter, judge: Judge, length: int) -> Joint:
    """The joint law of the first `length` tokens, over as many rounds as they take, each with fresh draws."""
    joint: Joint = defaultdict(Fraction)
    unfinished: list[tuple[Tokens, Fraction]] = [((), ONE)]
    rounds = cache(lambda prefix: round_law(p, drafter, judge, prefix))
    while unfinished:
        prefix, mass = unfinished.pop()
        for emitted, probability in rounds(prefix).items():
            text = prefix + emitted
            if len(text) < length:
                unfinished.append((text, mass * probability))
            else:
                joint[text[:length]] += mass * probability
    return dict(joint)


def mean_emitted(p: LawAt, drafter: Drafter, judge: Judge) -> Fraction:
    return sum((len(emitted) * mass for emitted, mass in round_law(p, drafter, judge, ()).items()), start=ZERO)


PAIRS: dict[str, tuple[LawAt, LawAt]] = {
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
def test_trees_write_the_targets_law(pair: tuple[LawAt, LawAt], shape: Shape) -> None:
    p, q = pair
    length = 3 if len(p(())) < 4 else 2
    assert output_law(p, Drafter(q, shape), judge_tree, length) == target_law(p, length)


@pairs
@pytest.mark.parametrize("gamma", [1, 2, 3])
@pytest.mark.parametrize("judge", [judge_token_chain, judge_block])
def test_chains_write_the_targets_law(pair: tuple[LawAt, LawAt], gamma: int, judge: Judge) -> None:
    p, q = pair
    assert output_law(p, Drafter(q, chain(gamma)), judge, gamma + 1) == target_law(p, gamma + 1)


@pairs
@pytest.mark.parametrize("judge", [judge_token_chain, judge_block])
@pytest.mark.parametrize("stops_at", [0, 1, 2])
def test_a_length_chosen_while_drafting_changes_no_law(pair: tuple[LawAt, LawAt], judge: Judge, stops_at: int) -> None:
    """Whether one more token is drafted may depend on the tokens drawn so far, and on where the text stands."""
    p, q = pair
    drafter = Drafter(q, chain(3), stops=lambda prefix: bool(prefix) and (sum(prefix) + len(prefix)) % 3 == stops_at)
    assert output_law(p, drafter, judge, 4) == target_law(p, 4)


@pytest.mark.parametrize("judge", [judge_token_chain, judge_block])
def test_a_token_drawn_and_then_not_proposed_is_caught(judge: Judge) -> None:
    """The classic mistake of adaptive lengths: a token is drawn, found unlikely, and dropped."""

    def dropped(law: Law, count: int) -> Iterator[tuple[Fraction, Tokens]]:
        for probability, tokens in draws(law, count):
            yield probability, tuple(x for x in tokens if law[x] * len(law) > 1)

    p, q = PAIRS["random"]
    assert not is_exact(p, Drafter(q, chain(2), draw=dropped), judge)


def test_four_children_of_a_vocabulary_of_four_leave_nothing_to_reject() -> None:
    p, q = PAIRS["four tokens"]
    drafter = Drafter(q, drawn(LEAF, LEAF, LEAF, LEAF))
    assert output_law(p, drafter, judge_tree, 2) == target_law(p, 2)
    assert mean_emitted(p, drafter, judge_tree) == 2


@pairs
def test_one_drawn_child_is_the_token_rule(pair: tuple[LawAt, LawAt]) -> None:
    p, q = pair
    drafter = Drafter(q, chain(2))
    assert round_law(p, drafter, judge_tree, ()) == round_law(p, drafter, judge_token_chain, ())


@pairs
def test_a_chosen_child_is_the_token_rule_with_a_certain_q(pair: tuple[LawAt, LawAt]) -> None:
    p, q = pair

    def sure(prefix: Tokens) -> Law:
        return one_hot(top(q(prefix), 1)[0], len(q(prefix)))

    by_draw = round_law(p, Drafter(q, best(best(LEAF))), judge_tree, ())
    assert by_draw == round_law(p, Drafter(sure, chain(2)), judge_token_chain, ())


@pairs
def test_a_block_emits_no_fewer_tokens_than_the_token_rule(pair: tuple[LawAt, LawAt]) -> None:
    p, q = pair
    drafter = Drafter(q, chain(3))
    assert mean_emitted(p, drafter, judge_block) >= mean_emitted(p, drafter, judge_token_chain)


@pytest.mark.parametrize("judge", [judge_token_chain, judge_block, judge_tree])
def test_q_equal_to_p_accepts_all_and_disjoint_supports_nothing(judge: Judge) -> None:
    p, q = PAIRS["q = p"]
    assert mean_emitted(p, Drafter(q, chain(3)), judge) == 4
    p, q = PAIRS["disjoint"]
    assert mean_emitted(p, Drafter(q, chain(3)), judge) == 1


# Mutations: each must change the law that is written.


def argmax_judged_with_softmax(q: Law, count: int) -> Iterator[tuple[Fraction, Tokens]]:
    yield ONE, top(q, count)


def likelier_of_two(q: Law, count: int) -> Iterator[tuple[Fraction, Tokens]]:
    """A reranked tree: twice as many are drawn, the likeliest kept in their draw order, the others dropped."""
    for probability, tokens in draws(q, 2 * count):
        kept = sorted(tokens, key=lambda x: (-q[x], x))[:count]
        yield probability, tuple(x for x in tokens if x in kept)


def sorted_by_probability(q: Law, count: int) -> Iterator[tuple[Fraction, Tokens]]:
    for probability, tokens in draws(q, count):
        yield probability, tuple(sorted(tokens, key=lambda x: (-q[x], x)))


def rounded(law: LawAt) -> LawAt:
    """A law kept in too few bits: to the nearest 1/16, not below it."""
    return lambda prefix: [max(Fraction(round(x * 16), 16), Fraction(1, 16)) for x in law(prefix)]


P, Q = PAIRS["random"]
PAIR_DRAWN = drawn(LEAF, LEAF)
RULES = {"token": (judge_token_chain, chain(2)), "block": (judge_block, chain(2)), "rrsw": (judge_tree, PAIR_DRAWN)}
every_rule = pytest.mark.parametrize(("judge", "shape"), RULES.values(), ids=RULES.keys())


def is_exact(p: LawAt, drafter: Drafter, judge: Judge) -> bool:
    written = output_law(p, drafter, judge, 3)
    return {tokens: mass for tokens, mass in written.items() if mass} == target_law(p, 3)


@every_rule
@pytest.mark.parametrize("draw", [argmax_judged_with_softmax, likelier_of_two])
def test_drafts_drawn_otherwise_than_judged_are_caught(judge: Judge, shape: Shape, draw: Draw) -> None:
    p, q = PAIRS["four tokens"]
    assert is_exact(p, Drafter(q, shape), judge)
    assert not is_exact(p, Drafter(q, shape, draw=draw), judge)


def test_siblings_judged_in_sorted_order_are_caught() -> None:
    assert is_exact(P, Drafter(Q, PAIR_DRAWN), judge_tree)
    assert not is_exact(P, Drafter(Q, PAIR_DRAWN, draw=sorted_by_probability), judge_tree)


@every_rule
def test_q_before_the_warpers_is_caught(judge: Judge, shape: Shape) -> None:
    p, q = PAIRS["both truncated"]
    assert is_exact(p, Drafter(q, shape), judge)
    assert not is_exact(p, Drafter(q, shape, claimed=language("q", 3)), judge)


@every_rule
def test_q_in_too_few_bits_is_caught(judge: Judge, shape: Shape) -> None:
    assert is_exact(P, Drafter(Q, shape), judge)
    assert not is_exact(P, Drafter(Q, shape, claimed=rounded(Q)), judge)


@every_rule
def test_the_last_token_from_p_after_a_rejection_is_caught(
    judge: Judge, shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_exact(P, Drafter(Q, shape), judge)
    monkeypatch.setattr(rules, "residual", lambda p, *_: list(p))
    assert not is_exact(P, Drafter(Q, shape), judge)


def test_a_block_residual_without_its_weight_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    (p, q), right = PAIRS["four tokens"], rules.residual
    monkeypatch.setattr(rules, "residual", lambda p, q, *_: right(p, q))
    assert not is_exact(p, Drafter(q, chain(2)), judge_block)


def test_a_coin_that_also_drew_the_draft_is_caught() -> None:
    """One number u draws the draft, by inverting the cumulative law, and is then compared with its threshold."""

    def judge(p: LawAt, prefix: Tokens, family: Family) -> Iterator[tuple[Fraction, Tokens]]:
        law, q, (token,) = p(prefix), family.q, family.tokens
        start = sum(q[:token], start=ZERO)
        below = max(min(rules.accept_probability(law, q, token), start + q[token]) - start, ZERO) / q[token]
        yield below, (token,)
        for x, mass in enumerate(rules.residual(law, q)):
            yield (1 - below) * mass, (x,)

    assert not is_exact(P, Drafter(Q, chain(1)), judge)


@pytest.mark.parametrize(
    "wrong",
    [lambda q, _: list(q), lambda q, token: [ZERO if x == token else y for x, y in enumerate(q)]],
    ids=["q kept whole", "q not renormalised"],
)
def test_a_wrong_q_after_a_rejection_is_caught(
    wrong: Callable[[Law, int], Law], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_exact(P, Drafter(Q, PAIR_DRAWN), judge_tree)
    monkeypatch.setattr(rules, "without", wrong)
    assert not is_exact(P, Drafter(Q, PAIR_DRAWN), judge_tree)


def test_a_coin_shared_by_siblings_is_caught() -> None:
    """The second sibling's coin is the one that rejected the first: known to be at or above the first threshold."""

    def judge(p: LawAt, prefix: Tokens, family: Family) -> Iterator[tuple[Fraction, Tokens]]:
        rows, last = rules.faced(p(prefix), family.q, family.tokens)
        floor = ZERO
        for token, row in zip(family.tokens, rows, strict=True):
            yield max(row.threshold - floor, ZERO), (token,)
            floor = max(floor, row.threshold)
        for token, mass in enumerate(last):
            yield (1 - floor) * mass, (token,)

    assert not is_exact(P, Drafter(Q, PAIR_DRAWN), judge)


# Noise keyed by position: the next round meets the draws that decided this one.

Interval = tuple[Fraction, Fraction]
Key = tuple[str, int]  # ("coin" or "draft", position in the text)
Known = dict[Key, Interval]  # where a draw that was looked at before is known to lie; uniform on that interval


def look(known: Known, key: Key, cuts: Sequence[Fraction]) -> Iterator[tuple[Fraction, int, Known]]:
    """Which piece of [0, 1), cut at `cuts`, a draw lies in: each outcome, its probability, what is known after it."""
    low, high = known.get(key, (ZERO, ONE))
    for piece, (left, right) in enumerate(itertools.pairwise([ZERO, *cuts, ONE])):
        left, right = max(left, low), min(right, high)
        if left < right:
            yield (right - left) / (high - low), piece, {**known, key: (left, right)}


def drafted_by_position(q: LawAt, prefix: Tokens, gamma: int, known: Known) -> Iterator[tuple[Fraction, Tokens, Known]]:
    """Chains drawn by inverting the cumulative law at the draw that belongs to each position."""
    if not gamma:
        yield ONE, (), known
        return
    cuts = list(itertools.accumulate(q(prefix)))[:-1]
    for mass, token, after in look(known, ("draft", len(prefix)), cuts):
        for probability, more, final in drafted_by_position(q, (*prefix, token), gamma - 1, after):
            yield mass * probability, (token, *more), final


Verdict = tuple[Fraction, int, Known]  # probability, tau, what is known afterwards


def block_by_position(p_rows: list[Law], q_rows: list[Law], tokens: Tokens, at: int, known: Known) -> Iterator[Verdict]:
    """Block verification looks at the coins from the last draft backwards, down to the first that passes."""
    _, thresholds = rules.block_thresholds(p_rows, q_rows, tokens)

    def down_from(i: int, mass: Fraction, known: Known) -> Iterator[Verdict]:
        if not i:
            yield mass, 0, known
            return
        for probability, failed, after in look(known, ("coin", at + i - 1), [thresholds[i - 1]]):
            verdict = mass * probability, i, after
            yield from down_from(i - 1, mass * probability, after) if failed else [verdict]

    yield from down_from(len(tokens), ONE, known)


def token_by_position(p_rows: list[Law], q_rows: list[Law], tokens: Tokens, at: int, known: Known) -> Iterator[Verdict]:
    """The token rule stops looking at the first rejection, so it leaves the coins of later positions untouched."""

    def up_from(i: int, mass: Fraction, known: Known) -> Iterator[Verdict]:
        if i == len(tokens):
            yield mass, i, known
            return
        threshold = rules.accept_probability(p_rows[i], q_rows[i], tokens[i])
        for probability, failed, after in look(known, ("coin", at + i), [threshold]):
            verdict = mass * probability, i, after
            yield from [verdict] if failed else up_from(i + 1, mass * probability, after)

    yield from up_from(0, ONE, known)


def keyed_by_position(judge: Callable[..., Iterator[Verdict]], gamma: int, reused: str, length: int = 4) -> bool:
    """Is the law still the target's if the draws of one purpose are keyed by position in the text, not by round?

    Exact, as `output_law` is: what is carried from round to round is an interval for each position already looked at.
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
            for judged, tau, after in judge(p_rows, q_rows, tokens, len(prefix), seen):
                kept = {key: interval for key, interval in after.items() if key[0] == reused}
                last = rules.block_last if judge is block_by_position else last_of_tokens
                for token, m in enumerate(last(p_rows, q_rows, tokens, tau)):
                    if m:
                        round_from((*prefix, *tokens[:tau], token), kept, mass * drafted * judged * m)

    round_from((), {}, ONE)
    assert sum(joint.values()) == 1
    return joint == target_law(p, length)


def last_of_tokens(p_rows: list[Law], q_rows: list[Law], tokens: Tokens, tau: int) -> Law:
    return rules.residual(p_rows[tau], q_rows[tau]) if tau < len(tokens) else p_rows[tau]


@pytest.mark.parametrize("reused", ["coin", "draft"])
def test_noise_keyed_by_position_is_caught_under_block_verification(reused: str) -> None:
    assert keyed_by_position(block_by_position, 3, reused="none")
    assert not keyed_by_position(block_by_position, 3, reused)


@pytest.mark.parametrize("reused", ["coin", "draft"])
def test_noise_keyed_by_position_is_harmless_where_no_draw_is_looked_at_twice(reused: str) -> None:
    """The same bookkeeping on rules that look at nothing beyond the last token they emit: the reuse is what tells."""
    assert keyed_by_position(token_by_position, 3, reused)
    assert keyed_by_position(block_by_position, 1, reused)


# The single rules on random laws.


@st.composite
def laws(draw: st.DrawFn, count: int) -> tuple[Law, ...]:
    size = draw(st.integers(2, 4))
    values = st.lists(st.integers(0, 6), min_size=size, max_size=size).filter(any)
    return tuple(norm(draw(values)) for _ in range(count))


@given(laws(2))
@settings(max_examples=60, deadline=None)
def test_the_acceptance_rate_is_the_overlap_of_the_laws(both: tuple[Law, ...]) -> None:
    p, q = both
    alpha = sum(y * rules.accept_probability(p, q, x) for x, y in enumerate(q) if y)
    distance = sum(abs(x - y) for x, y in zip(p, q, strict=True)) / 2
    assert alpha == sum(map(min, p, q)) == 1 - distance


@given(laws(2), st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_siblings_write_the_targets_law(both: tuple[Law, ...], count: int) -> None:
    p, q = both
    drafter = Drafter(lambda _: q, drawn(*[LEAF] * min(count, len(q))))
    assert output_law(lambda _: p, drafter, judge_tree, 1) == target_law(lambda _: p, 1)


@given(laws(6))
@settings(max_examples=60, deadline=None)
def test_blocks_write_the_targets_law(six: tuple[Law, ...]) -> None:
    def p(prefix: Tokens) -> Law:
        return six[len(prefix) % 3]

    drafter = Drafter(lambda prefix: six[3 + len(prefix) % 3], chain(2))
    assert output_law(p, drafter, judge_block, 3) == target_law(p, 3)


@given(laws(2))
@settings(max_examples=60, deadline=None)
def test_a_residual_is_a_law_within_p(both: tuple[Law, ...]) -> None:
    p, q = both
    left = rules.residual(p, q)
    assert sum(left) == 1
    assert all(not x or y for x, y in zip(left, p, strict=True))
    assert left == p if p == q else all(not x for x, a, b in zip(left, p, q, strict=True) if a <= b)


@given(laws(2))
@settings(max_examples=60, deadline=None)
def test_floats_agree_with_fractions(both: tuple[Law, ...]) -> None:
    p, q = both
    order = top(q, sum(map(bool, q)))
    exact, exact_last = rules.faced(p, q, order)
    floats, last = rules.faced([float(x) for x in p], [float(x) for x in q], order)
    reached = ONE
    for a, b in zip(exact, floats, strict=True):
        if reached < Fraction(1, 10**6):
            return  # rounding may pick another law where the exact one is never reached
        assert float(a.threshold) == pytest.approx(b.threshold, abs=1e-9)
        reached *= 1 - a.threshold
    if reached:
        assert [float(x) for x in exact_last] == pytest.approx(last, abs=1e-9)


def test_the_edges_of_the_single_rules() -> None:
    half, certainly = [Fraction(1, 2)] * 2, [ONE, ZERO]
    assert rules.residual(half, half) == half
    assert rules.without(certainly, 0) == [ZERO, ZERO]
    assert rules.without(half, 0) == [ZERO, ONE]
    assert rules.faced(half, certainly, [])[1] == half
    assert rules.deterministic_child([4, 2], 2) == 1
    assert rules.deterministic_child([4, 2], 3) is None
    with pytest.raises(ValueError, match="token 1 has probability 0 under q"):
        rules.accept_probability(half, certainly, 1)


def test_a_coin_passes_below_its_threshold_only() -> None:
    assert rules.token_accepted([ONE, ZERO, ONE], [Fraction(1, 2), ZERO, ZERO]) == 1
    assert rules.block_accepted([ZERO, Fraction(1, 2), ZERO], [ZERO, Fraction(1, 3), ZERO]) == 2
    assert rules.block_accepted([ZERO, ZERO], [ZERO, ZERO]) == 0
    assert rules.block_accepted([], []) == rules.token_accepted([], []) == 0
