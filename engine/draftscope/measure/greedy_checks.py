"""Tests of a drafter at temperature 0: it must write plain's text, whatever it drafts. It may part at a tie only.

Each test goes in steps of a round, so that others may take their turn in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from draftscope import drafters
from draftscope.base.progress import Progress
from draftscope.base.steps import Steps, last, mapped
from draftscope.base.text import same_start
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.lane import Lane
from draftscope.decode.run import Run
from draftscope.drafters.settings import Settings
from draftscope.measure.findings import Finding
from draftscope.measure.ties import Parting, Rounding, may_part
from draftscope.trace import events

TYPED = " and then the"  # what a person would draft, for the drafter that reads it
PROMPTS = ("Once upon a time", "def main():\n    ", "Question: What is 12 + 7?\nAnswer:", "The sea was calm and")


Written = TypeVar("Written")
WritingSteps = Steps[Progress | None, Written]  # None after a round; else how far a measurement is that comes first


@dataclass(frozen=True)
class GreedyTest:
    """What the greedy tests share: the pair, the drafter, and what plain writes after each prompt."""

    engine: DecodingEngine
    drafter: str
    seed: int = 0
    prompts: tuple[str, ...] = PROMPTS
    tokens: int = 48  # of each of plain's texts

    @cached_property
    def plain(self) -> list[list[int]]:
        """`writing`, whose steps are all taken now."""
        return last(self.writing())

    def writing(self) -> WritingSteps[list[list[int]]]:
        """What plain writes after each prompt, once."""
        if "plain" not in self.__dict__:
            texts: list[list[int]] = []
            for prompt in self.prompts:
                writing = self.greedy(prompt, "plain", self.tokens)
                texts.append((yield from _text(len(texts), len(self.prompts), writing, "plain decoding's ")))
            self.__dict__["plain"] = texts
        return self.plain

    @cached_property
    def rounding(self) -> Rounding:
        return Rounding(self.engine, list(zip(map(self.engine.encode, self.prompts), self.plain, strict=True)))

    def greedy(
        self, prompt: str, drafter: str, tokens: int, ends: Sequence[int] | None = None
    ) -> WritingSteps[list[int]]:
        """What a drafter writes after a prompt at temperature 0; `ends` are the tokens that end its text."""
        engine = copy(self.engine)
        engine.eos = self.engine.eos if ends is None else frozenset(ends)
        settings = Settings.of(drafter=drafter, max_new_tokens=tokens, seed=self.seed, typed=TYPED)
        return (yield from _written(engine, prompt, settings))

    def parting(self, prompt: str, expected: Sequence[int], written: Sequence[int]) -> Parting | None:
        """Where a text leaves the expected one; None if the shorter is the beginning of the longer."""
        return self.rounding.parting(self.engine.encode(prompt), expected, written)

    def where_and_why(self, prompt: str, parting: Parting) -> str:
        """Where and why a text parts."""
        gap = f"where the target's fp32 logits of the two tokens are {parting.gap:.3g} apart"
        sentence = f"'{prompt[:24]}' parts at token {parting.token + 1}, {gap}"
        if parting.tie:
            return f"{sentence}: a tie"
        return f"{sentence}; from there a token trails the target's best by {parting.behind:.3g}"


GreedySteps = WritingSteps[Finding]


def greedy_identity(case: GreedyTest) -> GreedySteps:
    """At temperature 0 the drafter must write plain's tokens. A text may part from plain's at a tie only."""
    name, partings = "greedy identity", []
    right = yield from case.writing()
    equal, total = 0, sum(map(len, right))
    for number, (prompt, plain) in enumerate(zip(case.prompts, right, strict=True)):
        writing = case.greedy(prompt, case.drafter, case.tokens)
        written = yield from _text(number, len(right), writing)
        equal += same_start(plain, written)
        if written == plain:
            continue
        parting = case.parting(prompt, plain, written)
        if parting is None:
            detail = f"'{prompt[:24]}' has {len(written)} tokens, plain's text {len(plain)}, equal as far as both go"
            return Finding(name, False, detail, total)
        partings.append(case.where_and_why(prompt, parting))
        if not parting.tie:
            return Finding(name, False, f"{partings[-1]} ({case.rounding})", total)
    detail = f"{equal} of {total} tokens equal to plain, {len(case.prompts)} prompts"
    return Finding(name, True, _with_ties(detail, partings, case), total, ties=len(partings))


def one_forward_a_round(case: GreedyTest) -> GreedySteps:
    """The target must run once per round, after the prefill."""
    settings = Settings.of(drafter=case.drafter, max_new_tokens=24, seed=case.seed)
    run = yield from case.engine.opening(case.prompts[0], Lane.of(case.engine, settings))
    with case.engine.target.counter.widths() as ran:  # in one step: those of others would count
        happened = list(run.events())
    yield None
    widths = [event.width for event in happened if isinstance(event, events.Round)]
    before = len(ran) - len(widths)  # forwards of the prefill, several for a long prompt
    detail = f"{len(ran)} forwards: {len(widths)} rounds and the prefill"
    read = sum(ran[:before]) == max(event.tokens for event in happened if isinstance(event, events.Prefill))
    return Finding("one forward a round", read and ran[before:] == widths, detail, len(ran))


def end_inside_a_block(case: GreedyTest, tokens: int = 24) -> GreedySteps:
    """An end of text must end the text there, also inside an accepted block. Before it, a text may part at a tie."""
    prompt = case.prompts[0]
    free = yield from case.greedy(prompt, case.drafter, tokens)
    wrong, partings = [], []
    for place, end in enumerate(free):
        expected = free[: free.index(end) + 1]
        written = yield from _text(place, len(free), case.greedy(prompt, case.drafter, tokens, ends=[end]))
        if written == expected:
            continue
        parting = case.parting(prompt, expected, written)
        ended = end not in written[:-1] and (written[-1] == end or len(written) == tokens)
        if parting is None or not parting.tie or not ended:
            wrong.append(place)
        else:
            partings.append(case.where_and_why(prompt, parting))
    detail = (
        f"texts that should end at tokens {wrong} end elsewhere"
        if wrong
        else f"{len(free)} ends, each in the right place"
    )
    detail = _with_ties(detail, partings, case)
    return Finding("end inside a block", not wrong, detail, len(free), ties=len(partings))


def begun_again(case: GreedyTest) -> GreedySteps:
    """A cancelled run must not change what the next run writes.

    Tested at temperature 0 if the drafter depends on measured times, since a seed then repeats no sampled text. Two
    such texts have other trees, so they may part at a tie.
    """
    name, by_clock = "begun again", drafters.find(case.drafter).by_clock
    settings = Settings.of(
        drafter=case.drafter, temperature=0.0 if by_clock else 1.0, max_new_tokens=24, seed=case.seed
    )
    undisturbed = yield from _written(case.engine, case.prompts[0], settings)
    cancelled: Run = yield from case.engine.opening(case.prompts[-1], Lane.of(case.engine, settings), record=False)
    next(cancelled.steps())
    again = yield from _written(case.engine, case.prompts[0], settings)
    if again != undisturbed and by_clock:
        parting = case.parting(case.prompts[0], undisturbed, again)
        if parting is not None and parting.tie:
            detail = _with_ties("equal after a cancelled run", [case.where_and_why(case.prompts[0], parting)], case)
            return Finding(name, True, detail, 1, ties=1)
    same = again == undisturbed
    return Finding(name, same, f"{len(undisturbed)} tokens {'equal' if same else 'differ'} after a cancelled run", 1)


def ragged_batch(case: GreedyTest) -> GreedySteps:
    """Unequal texts decoded together must get the same tokens as each alone, except at a tie."""
    engine, name, partings = case.engine, "ragged batch", []
    if not engine.batches:
        return Finding(name, True, "skipped: one of these models decodes one text at a time")
    lane = Lane.of(engine, Settings.of(drafter=case.drafter, max_new_tokens=24, seed=case.seed))
    encoded = [engine.encode(prompt) for prompt in case.prompts]
    together = yield from engine.opening_batch(encoded, lane, tuple(range(len(encoded))), ends=False)
    for _ in together.steps():
        yield None
    for b, prompt in enumerate(case.prompts):
        single = yield from engine.opening_batch([encoded[b]], lane, (b,), ends=False)
        for _ in single.steps():
            yield None
        parting = case.parting(prompt, single.transcripts[0].tokens, together.transcripts[b].tokens)
        if parting is not None:
            partings.append(case.where_and_why(prompt, parting))
            if not parting.tie:
                return Finding(name, False, f"{partings[-1]} ({case.rounding})", len(encoded))
    detail = f"{len(encoded)} unequal texts get the same tokens together as alone"
    return Finding(name, True, _with_ties(detail, partings, case), len(encoded), ties=len(partings))


def _with_ties(detail: str, partings: Sequence[str], case: GreedyTest) -> str:
    """`detail`, and the ties that were met, if any."""
    if not partings:
        return f"{detail}; at a tie it might part here, in 16 bits on CUDA" if may_part(case.engine) else detail
    more = f", and {len(partings) - 1} more" if len(partings) > 1 else ""
    return f"{detail}; {partings[0]}{more} ({case.rounding})"


TESTS = (greedy_identity, one_forward_a_round, end_inside_a_block, begun_again, ragged_batch)


def _text(number: int, of: int, writing: WritingSteps[Written], whose: str = "") -> Steps[Progress, Written]:
    """The same steps, each of which says which text is written, of how many."""
    now = Progress(f"{whose}text {number + 1} of {of}", number / of)
    return mapped(writing, lambda measuring: measuring or now)


def _written(engine: DecodingEngine, prompt: str, settings: Settings) -> WritingSteps[list[int]]:
    run = yield from engine.opening(prompt, Lane.of(engine, settings), record=False)
    for _ in run.steps():
        yield None
    return run.token_ids
