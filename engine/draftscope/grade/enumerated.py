"""Exercises that are judged by the law of what they write: it must be the target's, and keep as much as the rule."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

from draftscope.grade.exercise import Asked, Exercise, Verdict, written
from draftscope.grade.grid import FailedError, Law, Output, law, own_law

Tokens: TypeAlias = tuple[int, ...]
Distribution: TypeAlias = tuple[Fraction, ...]
Emitted: TypeAlias = dict[tuple[Tokens, int], Fraction]  # (tokens that are written, drafted ones kept) -> probability
RIGHT = "right"


@dataclass(frozen=True)
class Situation:
    """A draft, and how probable it is."""

    weight: Fraction
    draft: Tokens
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """A small target and a small draft model, by what was written before."""

    p: Mapping[Tokens, Distribution]
    q: Mapping[Tokens, Distribution]
    situations: tuple[Situation, ...]
    words: str  # what a counter-example begins with


class LawExercise(Exercise):
    """`rules` has the right rule and the usual mistakes as functions like the student's."""

    dims: ClassVar[int]  # random numbers that a call may take
    cells: ClassVar[int]  # all thresholds are multiples of 1 / cells
    rules: ClassVar[Mapping[str, Callable[..., Any]]]

    @abstractmethod
    def cases(self, chance: random.Random) -> Sequence[Case]:
        """Together they tell all mistakes apart."""

    @abstractmethod
    def emitted(self, output: Output, draft: Tokens) -> tuple[Tokens, int]:
        """The tokens of one call, and how many drafted ones were kept. Raises `FailedError` for another shape."""

    def judge(self, ask: Asked, chance: random.Random) -> Verdict:
        function, cases = self.functions[0], self.cases(chance)
        came = [self._law(case, lambda arguments: self._asked(ask, function, arguments)) for case in cases]
        right = [self.by(RIGHT, case) for case in cases]
        for case, law_of, exact in zip(cases, came, right, strict=True):
            sentence = different(case, law_of) or fewer(law_of, exact)
            if sentence:
                known = (name for name in self.mistakes if self._same(name, cases, came))
                return Verdict(self.name, False, f"{case.words}: {sentence}.", next(known, ""))
        return Verdict(self.name, True, f"The law is the target's in all {len(cases)} cases, exactly.")

    def by(self, rule: str, case: Case) -> Emitted:
        """What one of the own rules writes."""
        return self._law(case, lambda arguments: own_law(self.rules[rule], arguments, self.cells))

    def _asked(self, ask: Asked, function: str, arguments: Sequence[Any]) -> Law:
        return law(lambda numbers: ask(function, [(arguments, drawn) for drawn in numbers]), self.dims, self.cells)

    def _law(self, case: Case, law_of: Callable[[Sequence[Any]], Law]) -> Emitted:
        outcome: Emitted = defaultdict(Fraction)
        for situation in case.situations:
            for output, share in law_of(situation.arguments).items():
                outcome[self.emitted(output, situation.draft)] += situation.weight * share
        return dict(outcome)

    def _same(self, name: str, cases: Sequence[Case], came: Sequence[Emitted]) -> bool:
        return all(self.by(name, case) == law_of for case, law_of in zip(cases, came, strict=True))


def different(case: Case, came: Emitted) -> str:
    """Where the law of the next token first differs from the target's; empty if it does nowhere.

    What comes after the written tokens is the target's: a shorter output is no other law.
    """
    for prefix in sorted(case.p, key=lambda tokens: (len(tokens), tokens)):
        target, mass = case.p[prefix], Fraction()
        following = [Fraction()] * len(target)
        for (tokens, _), share in came.items():
            if tokens[: len(prefix)] == prefix[: len(tokens)] and len(tokens) >= len(prefix):
                mass += share
                for token, chance_there in enumerate(target):
                    ends = len(tokens) == len(prefix)
                    following[token] += share * (chance_there if ends else int(tokens[len(prefix)] == token))
        law_there = tuple(share / mass for share in following) if mass else target
        if law_there != target:
            after = f"after {', '.join(map(str, prefix))} " if prefix else ""
            q = f" and q = {written(case.q[prefix])}" if prefix in case.q else ""
            return f"{after}with p = {written(target)}{q} your output is {written(law_there)}"
    return ""


def fewer(came: Emitted, exact: Emitted) -> str:
    """Whether less is kept or written than by the rule; empty if not."""
    for place, words in enumerate(("writes {} tokens a round on average, where the rule writes {}", "keeps {} of the "
                                   "drafted tokens on average, where the rule keeps {}")):  # fmt: skip
        mean, wanted = (_mean(law_of, place) for law_of in (came, exact))
        if mean < wanted:
            return f"the law is the target's, but your function {words.format(mean, wanted)}"
    return ""


def _mean(law_of: Emitted, place: int) -> Fraction:
    return sum((share * (len(key[0]), key[1])[place] for key, share in law_of.items()), Fraction())


def token(output: Output, vocabulary: int) -> int:
    """Raises `FailedError` for what is none."""
    if not isinstance(output, int) or not 0 <= output < vocabulary:
        raise FailedError(f"it returns {output!r:.60} where a token from 0 to {vocabulary - 1} belongs")
    return output


def fraction(words: str) -> Distribution:
    """'1/2 1/4 1/4' as a distribution."""
    return tuple(map(Fraction, words.split()))


def renamed(law_of: Sequence[Fraction], order: Sequence[int]) -> Distribution:
    """With other tokens: the one that was `order[i]` is now i."""
    return tuple(law_of[place] for place in order)
