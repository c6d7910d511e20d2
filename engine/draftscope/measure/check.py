"""Checks whether a drafter's output differs from the target's, on one pair, by comparison and by samples.

Tests prove the rules by enumeration. On a real pair, caches, masks and random streams can still be wrong, which samples
reveal. So a check never says "exact": it says that no difference was found, in how many samples, and how likely a false
alarm is. A greedy text that parts from plain's at a tie (`ties.py`) is no difference; how many did is said.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import product
from pathlib import Path
from time import monotonic
from traceback import extract_tb
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from draftscope import drafters
from draftscope.base.errors import MOST_NAMED, DraftscopeError, quoted
from draftscope.base.settings import LOSSY
from draftscope.decode.lab import Lab
from draftscope.decode.session import Step
from draftscope.decode.start import models_of
from draftscope.drafters.options import LengthOptions, RuleOptions
from draftscope.drafters.settings import Settings
from draftscope.measure.rounds import FavouredTokens, ProbabilitySums, UsedUniforms
from draftscope.measure.ties import Parting, Rounding, may_part
from draftscope.trace import events
from draftscope.verify.sampling import Sampling
from draftscope.verify.tree import even

FALSE_ALARM = 1e-6  # probability that a distribution test fails for a correct implementation
LEAST_DUE = 5  # times an outcome must be expected to be compared by itself
TOP_KS = 3  # values of top-k that are tried, from the test's own on
TREE = (3, 2)  # in the distribution tests: siblings that are rejected, whatever tree would be fastest
CHAIN_T, TREE_T = 1.0, 2.0  # temperatures of the distribution tests; siblings are seldom all rejected at 1
FAVOURED = 0.25  # runs for the test of the favoured tokens, of those for the joint distribution
BATCH = 256  # runs decoded together
LEAST_SHARE = 0.02  # of the runs, after which the time left is estimated
MIN_FREEDOM = 4  # degrees of freedom; with fewer, a wrong distribution would pass
PROMPTS = ("Once upon a time", "def main():\n    ", "Question: What is 12 + 7?\nAnswer:", "The sea was calm and")

# Names of findings; those from the third on are followed by the rule.
FRESH, SUMS = "fresh random numbers", "sums of probabilities"
FAVOURED_TOKENS, JOINT = "tokens that the draft favours", "joint distribution"
DISTANCE = f"distance of the {JOINT}"

ENGINE = Path(__file__).parents[1]
PROGRESS_S = 1.0  # between two events of a check that tell only how far it is

Joint = dict[tuple[int, ...], float]
Counts = Counter[tuple[int, ...]]


@dataclass(frozen=True)
class Progress:
    """What is tested now, what share of that is done, and how long the whole check goes on, once that can be said."""

    doing: str
    share: float = 0.0
    seconds_left: float | None = None


@dataclass(frozen=True)
class Finding:
    """The result of one check: what was tested, on how many samples, and whether a difference was found."""

    name: str
    passed: bool
    detail: str
    samples: int = 0
    ties: int = 0  # texts that part from the expected ones where rounding alone decides
    error: str = ""  # the name of the exception with which the engine ended this test; empty if it ran to its end
    p_value: float | None = None
    total_variation: float | None = None  # lossy rules: between the joint distribution and the target's
    kl: float | None = None  # KL(written || target) in nats; absent if infinite (the target cannot write it)


class Checked(events.Record):
    """The findings so far on one drafter and one pair; `verdict` is empty until all `tests` are done."""

    kind: Literal["checked"] = "checked"
    drafter: str
    title: str
    rule: str  # for drawn chains; empty if the drafter's verification has no choice of rule
    exact: bool
    models: list[str]
    created: str  # ISO 8601, UTC
    false_alarm: float = FALSE_ALARM  # of each distribution test
    samples: int  # of each distribution test
    tests: int
    findings: list[dict[str, str | bool | int | float | None]]
    doing: str = ""  # what is tested now
    share: float = 0.0  # of that, done
    seconds_left: float | None = None  # until the end of the check, estimated; None while it cannot be
    verdict: str = ""


def checked(
    lab: Lab, settings: Settings, samples: int = 2048, watch: Callable[[], None] = lambda: None
) -> Iterator[Checked]:
    """`check` with the drafter and rule of these settings, as events. `watch` is called often and may raise."""
    info = drafters.find(settings.drafter)
    rule = info.rule_of(settings).name if "rule" in info.uses else None
    so_far = Checked(
        drafter=info.name,
        title=info.title,
        rule=rule or "",
        exact=info.exact_with(settings.model_copy(update={"temperature": 1.0})),  # as the distribution is tested
        models=[model.name for model in models_of(lab, info)],
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        samples=samples,
        tests=len(TESTS) + len(_sampled_names(rule or "block")),
        findings=[],
    )
    findings: list[Finding] = []
    told = monotonic()
    yield so_far
    for each in steps(lab, info.name, samples, settings.seed, rule=rule, like=settings):
        if isinstance(each, Progress):
            watch()
            so_far = so_far.model_copy(update=asdict(each))
            if monotonic() - told < PROGRESS_S:
                continue
        else:
            findings.append(each)
            done = verdict(findings, so_far.exact) if len(findings) == so_far.tests else ""
            so_far = so_far.model_copy(update={"findings": [asdict(found) for found in findings], "verdict": done})
        told = monotonic()
        yield so_far


def check(
    lab: Lab,
    drafter: str = "draft",
    samples: int = 2048,
    seed: int = 0,
    progress: Callable[[Progress], None] = lambda _: None,
    rule: str | None = None,
    like: Settings | None = None,
    prompts: Sequence[str] = PROMPTS,
) -> Iterator[Finding]:
    """The findings of `steps`. `progress` is called before each test and in every round of the distribution tests;
    what it raises ends the check."""
    for each in steps(lab, drafter, samples, seed, rule, like, prompts):
        if isinstance(each, Progress):
            progress(each)
        else:
            yield each


def steps(
    lab: Lab,
    drafter: str,
    samples: int,
    seed: int = 0,
    rule: str | None = None,
    like: Settings | None = None,
    prompts: Sequence[str] = PROMPTS,
) -> Iterator[Progress | Finding]:
    """Tests what every drafter must satisfy, then many runs above temperature 0. Yields each finding, and how far the
    check is: before each test, and in every round of those runs.

    `like` has the lenience and agreement of a lossy rule, and how a chain's length is chosen. A lossy `rule` writes
    another distribution by design: how far it lies from the target's is reported as a number, not verified.
    """
    chooses = "rule" in drafters.find(drafter).uses
    case = GreedyTest(lab, drafter, seed, tuple(prompts))
    if rule is not None and not chooses:
        raise DraftscopeError(f"rule = '{rule}': '{drafter}' has no choice of rule; leave it out.")
    rules = (rule,) if rule is not None else ("block", "token") if chooses else ("block",)
    like = like or Settings.of()
    lossy, length = like.options(RuleOptions), like.options(LengthOptions)
    for test in TESTS:
        name = test.__name__.replace("_", " ")
        yield Progress(name)
        yield _guarded(test, case, name)
    for after, each in enumerate(rules, 1):
        settings = Settings.of(
            drafter=drafter, rule=each, gamma=3, shape=TREE, typed=" the", top_k=3, seed=seed,
            temperature=CHAIN_T if chooses else TREE_T, lenience=lossy.lenience, agreement=lossy.agreement,
            draft_length=length.draft_length, confidence=length.confidence,
        )  # fmt: skip
        runs = _ended(_telling_tests(lab.with_tree(even(TREE)), settings, samples, prompts), _sampled_names(each))
        yield from _timed(runs, f"joint distribution, {samples} samples", len(rules) - after)


def _guarded(test: Callable[[GreedyTest], Finding], case: GreedyTest, name: str) -> Finding:
    """The test's finding; an exception of the engine is one too. Where the first test is refused, the question was
    wrong, not the engine: DraftscopeError."""
    try:
        return test(case)
    except Exception as error:
        if isinstance(error, DraftscopeError) and test is TESTS[0]:
            raise
        return _engine_error(name, error)


def _ended(runs: Iterator[float | Finding], names: Sequence[str]) -> Iterator[float | Finding]:
    """The same; where the engine ends with an exception, that is the finding of each of `names` that was not made."""
    made = 0
    try:
        for each in runs:
            made += isinstance(each, Finding)
            yield each
    except Exception as error:
        yield from (_engine_error(name, error) for name in names[made:])


def _engine_error(name: str, error: Exception) -> Finding:
    """The finding that the engine ended a test with an exception: which one, and where."""
    frames = [frame for frame in extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(ENGINE)]
    where = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    kind, message = type(error).__name__, quoted(str(error), MOST_NAMED)
    return Finding(name, False, f"not tested: the engine ended with {kind}{where}: {message}", error=kind)


def _timed(runs: Iterator[float | Finding], doing: str, more: int) -> Iterator[Progress | Finding]:
    """Shares done as progress, with the time left for these runs and for as many again, `more` times."""
    began = monotonic()
    for each in runs:
        if isinstance(each, Finding):
            yield each
            continue
        spent = monotonic() - began
        known = each >= LEAST_SHARE
        yield Progress(doing, each, spent / each * (1.0 - each + more) if known else None)


def verdict(findings: Sequence[Finding], exact: bool) -> str:
    """The strongest sentence that these findings support."""
    apart = [finding.name for finding in findings if not finding.passed and not finding.error]
    ended = [finding.name for finding in findings if finding.error]
    if apart or ended:
        difference = [f"A difference was found: {', '.join(apart)}."] if apart else []
        error = [f"The engine ended with an error: {', '.join(ended)}."] if ended else []
        return " ".join(difference + error)
    ties = sum(finding.ties for finding in findings)
    met = f" Ties met: {ties}; there rounding alone decides the target's best token." if ties else ""
    if not exact:
        return f"This drafter's rule is lossy by design; nothing unexpected was found.{met}"
    return f"The rule is proved; on this pair no difference was found.{met}"


@dataclass(frozen=True)
class GreedyTest:
    """What the greedy tests share: the pair, the drafter, and what plain writes after each prompt."""

    lab: Lab
    drafter: str
    seed: int = 0
    prompts: tuple[str, ...] = PROMPTS
    tokens: int = 48  # of each of plain's texts

    @cached_property
    def plain(self) -> list[list[int]]:
        return [self.greedy(prompt, "plain", self.tokens) for prompt in self.prompts]

    @cached_property
    def rounding(self) -> Rounding:
        return Rounding(self.lab, list(zip(map(self.lab.encode, self.prompts), self.plain, strict=True)))

    def greedy(self, prompt: str, drafter: str, tokens: int, ends: Sequence[int] | None = None) -> list[int]:
        """What a drafter writes after a prompt at temperature 0; `ends` are the tokens that end its text."""
        lab = copy(self.lab)
        lab.eos = self.lab.eos if ends is None else frozenset(ends)
        run = lab.decode(prompt, drafter, max_new_tokens=tokens, seed=self.seed, typed=" and then the", record=False)
        return run.token_ids

    def parting(self, prompt: str, expected: Sequence[int], found: Sequence[int]) -> Parting | None:
        """Where a text leaves the expected one; None if the shorter is the beginning of the longer."""
        return self.rounding.parting(self.lab.encode(prompt), expected, found)

    def where_and_why(self, prompt: str, parting: Parting) -> str:
        """Where and why a text parts."""
        gap = f"where the target's fp32 logits of the two tokens are {parting.gap:.3g} apart"
        sentence = f"'{prompt[:24]}' parts at token {parting.token + 1}, {gap}"
        if parting.tie:
            return f"{sentence}: a tie"
        return f"{sentence}; from there a token trails the target's best by {parting.behind:.3g}"


def greedy_identity(case: GreedyTest) -> Finding:
    """At temperature 0 the drafter must write plain's tokens. A text may part from plain's at a tie only."""
    name, partings = "greedy identity", []
    equal, total = 0, sum(map(len, case.plain))
    for prompt, plain in zip(case.prompts, case.plain, strict=True):
        found = case.greedy(prompt, case.drafter, case.tokens)
        equal += _common(plain, found)
        if found == plain:
            continue
        parting = case.parting(prompt, plain, found)
        if parting is None:
            detail = f"'{prompt[:24]}' has {len(found)} tokens, plain's text {len(plain)}, equal as far as both go"
            return Finding(name, False, detail, total)
        partings.append(case.where_and_why(prompt, parting))
        if not parting.tie:
            return Finding(name, False, f"{partings[-1]} ({case.rounding})", total)
    detail = f"{equal} of {total} tokens equal to plain, {len(case.prompts)} prompts"
    return Finding(name, True, _with_ties(detail, partings, case), total, ties=len(partings))


def one_forward_a_round(case: GreedyTest) -> Finding:
    """The target must run once per round, after the prefill."""
    with case.lab.target.counter.widths() as ran:
        run = case.lab.decode(case.prompts[0], case.drafter, max_new_tokens=24, seed=case.seed)
    widths = [event.width for event in run.rounds]
    before = len(ran) - len(widths)  # forwards of the prefill, several for a long prompt
    detail = f"{len(ran)} forwards: {len(widths)} rounds and the prefill"
    read = sum(ran[:before]) == max(event.tokens for event in run.events if isinstance(event, events.Prefill))
    return Finding("one forward a round", read and ran[before:] == widths, detail, len(ran))


def end_inside_a_block(case: GreedyTest, tokens: int = 24) -> Finding:
    """An end of text must end the text there, also inside an accepted block. Before it, a text may part at a tie."""
    prompt, free = case.prompts[0], case.greedy(case.prompts[0], case.drafter, tokens)
    wrong, partings = [], []
    for place, end in enumerate(free):
        expected = free[: free.index(end) + 1]
        found = case.greedy(prompt, case.drafter, tokens, ends=[end])
        if found == expected:
            continue
        parting = case.parting(prompt, expected, found)
        ended = end not in found[:-1] and (found[-1] == end or len(found) == tokens)
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


def begun_again(case: GreedyTest) -> Finding:
    """A cancelled run must not change what the next run writes.

    Tested at temperature 0 if the drafter depends on measured times, since a seed then repeats no sampled text. Two
    such texts have other trees, so they may part at a tie.
    """
    name, by_clock = "begun again", drafters.find(case.drafter).by_clock
    settings = Settings.of(
        drafter=case.drafter, temperature=0.0 if by_clock else 1.0, max_new_tokens=24, seed=case.seed
    )
    undisturbed = _written(case.lab, case.prompts[0], settings)
    next(case.lab.session(case.prompts[1], settings, record=False).steps())
    again = _written(case.lab, case.prompts[0], settings)
    if again != undisturbed and by_clock:
        parting = case.parting(case.prompts[0], undisturbed, again)
        if parting is not None and parting.tie:
            detail = _with_ties("equal after a cancelled run", [case.where_and_why(case.prompts[0], parting)], case)
            return Finding(name, True, detail, 1, ties=1)
    same = again == undisturbed
    return Finding(name, same, f"{len(undisturbed)} tokens {'equal' if same else 'differ'} after a cancelled run", 1)


def ragged_batch(case: GreedyTest) -> Finding:
    """Unequal texts decoded together must get the same tokens as each alone, except at a tie."""
    lab, name, partings = case.lab, "ragged batch", []
    if not lab.batches:
        return Finding(name, True, "skipped: one of these models decodes one text at a time")
    settings = Settings.of(drafter=case.drafter, max_new_tokens=24, seed=case.seed)
    encoded = [lab.encode(prompt) for prompt in case.prompts]
    together = lab.session_of(encoded, settings, tuple(range(len(encoded))), ends=False)
    for _ in together.steps():
        pass
    for b, prompt in enumerate(case.prompts):
        alone = lab.session_of([encoded[b]], settings, (b,), ends=False)
        for _ in alone.steps():
            pass
        parting = case.parting(prompt, alone.transcripts[0].tokens, together.transcripts[b].tokens)
        if parting is not None:
            partings.append(case.where_and_why(prompt, parting))
            if not parting.tie:
                return Finding(name, False, f"{partings[-1]} ({case.rounding})", len(encoded))
    detail = f"{len(encoded)} unequal texts get the same tokens together as alone"
    return Finding(name, True, _with_ties(detail, partings, case), len(encoded), ties=len(partings))


def _with_ties(detail: str, partings: Sequence[str], case: GreedyTest) -> str:
    """`detail`, and the ties that were met, if any."""
    if not partings:
        return f"{detail}; at a tie it might part here, in 16 bits on CUDA" if may_part(case.lab) else detail
    more = f", and {len(partings) - 1} more" if len(partings) > 1 else ""
    return f"{detail}; {partings[0]}{more} ({case.rounding})"


TESTS = (greedy_identity, one_forward_a_round, end_inside_a_block, begun_again, ragged_batch)


def _telling_tests(lab: Lab, settings: Settings, samples: int, prompts: Sequence[str]) -> Iterator[float | Finding]:
    """`sampled_tests` of four tokens after the prompt that leaves most to compare."""
    prompt, there, expected = _telling(lab, prompts, settings, length=4, samples=samples)
    yield from sampled_tests(lab, prompt, there, 4, samples, prompts, expected)


def _sampled_names(rule: str) -> tuple[str, ...]:
    """The names of the findings of `sampled_tests`, in their order."""
    if rule in LOSSY:
        return FRESH, SUMS, f"{DISTANCE} ({rule})"
    return FRESH, SUMS, f"{FAVOURED_TOKENS} ({rule})", f"{JOINT} ({rule})"


def sampled_tests(
    lab: Lab,
    prompt: str,
    settings: Settings,
    length: int,
    samples: int,
    prompts: Sequence[str],
    expected: Joint | None = None,
) -> Iterator[float | Finding]:
    """Decodes `samples` runs after `prompt`, and a quarter as many without top-k after all `prompts`. Yields the share
    done after every round; then what their random numbers, their rounds, and their joint distribution show.

    `expected` is the target's own joint distribution, where it is known: nothing is left to compute at the end.
    """
    lossy = settings.options(RuleOptions).rule in LOSSY
    used, sums, favoured = UsedUniforms(), ProbabilitySums(), FavouredTokens()

    def seen(step: Step) -> None:
        used.add(step)
        sums.add(step)

    share = 1.0 if lossy else 1 / (1 + FAVOURED)
    tokens = lab.encode(prompt, length + 2)
    expected = expected if expected is not None else _expected(lab, tokens, settings, length)
    observed = yield from _scaled(sampling(lab, tokens, settings, length, samples, seen=seen), 0.0, share)
    if not lossy:
        untruncated = settings.model_copy(update={"top_k": 0, "temperature": 1.0})
        each = math.ceil(FAVOURED * samples / len(prompts))
        for k, other in enumerate(prompts):
            tokens_of = lab.encode(other, length + 2)
            runs = sampling(lab, tokens_of, untruncated, length, each, seen=favoured.add, first=samples + k * each)
            yield from _scaled(runs, share + k * (1 - share) / len(prompts), (1 - share) / len(prompts))
    used.end()
    yield _fresh_uniforms(used, samples)
    yield _sums(sums, samples)
    if lossy:
        yield _distance(expected, settings, length, samples, observed)
        return
    yield _favoured_tokens(favoured, settings)
    yield _distribution(expected, settings, length, samples, observed)


def _scaled(runs: Generator[float, None, Counts], start: float, share: float) -> Generator[float, None, Counts]:
    """The same, as a part of more: shares from `start` on."""
    while True:
        try:
            yield start + share * next(runs)
        except StopIteration as end:
            counts: Counts = end.value
            return counts


def _fresh_uniforms(used: UsedUniforms, samples: int) -> Finding:
    detail = f"{used.again or 'none'} of {used.used:,} uniform random numbers used twice in a run"
    return Finding(FRESH, not used.again, detail, samples)


def _sums(sums: ProbabilitySums, samples: int) -> Finding:
    detail = (
        f"{sums.rows:,} rows sum to 1 up to {sums.target:.1g} (target) and {sums.draft:.1g} (draft); more than "
        f"{ProbabilitySums.MOST:g} would have been a difference"
    )
    return Finding(SUMS, max(sums.target, sums.draft) <= ProbabilitySums.MOST, detail, samples)


def _favoured_tokens(favoured: FavouredTokens, settings: Settings) -> Finding:
    """Whether what the draft favours is written as often as the target says, over all rounds; see `rounds.py`."""
    rule = settings.options(RuleOptions).rule
    name = f"{FAVOURED_TOKENS} ({rule})"
    if drafters.find(settings.drafter).synthetic:
        return Finding(name, True, "skipped: this draft knows the text that will be written", favoured.rounds)
    if not favoured.rounds:
        return Finding(name, True, "skipped: nothing was drafted in these runs", favoured.rounds)
    share, due = favoured.written / favoured.rounds, favoured.due / favoured.rounds
    p_value = favoured.p_value
    detail = (
        f"share {share:.4f} of the first tokens of {favoured.rounds:,} rounds, {due:.4f} due by the target's "
        f"distribution, p = {p_value:.3g}; {favoured.detectable(FALSE_ALARM):.4f} apart would have been a difference; "
        f"false alarm {FALSE_ALARM:g}"
    )
    return Finding(name, p_value >= FALSE_ALARM, detail, favoured.rounds, p_value=p_value)


def distribution_test(
    lab: Lab, prompt: str, settings: Settings, length: int, samples: int, batch: int = BATCH
) -> Finding:
    """Chi-square test of the joint distribution of the first `length` tokens against the target's own, computed path
    by path."""
    tokens = lab.encode(prompt, length + 2)
    observed = sampled_joint(lab, tokens, settings, length, samples, batch)
    return _distribution(_expected(lab, tokens, settings, length), settings, length, samples, observed)


def _distribution(expected: Joint, settings: Settings, length: int, samples: int, observed: Counts) -> Finding:
    rule = settings.options(RuleOptions).rule
    statistic, freedom, p_value = chi_square(along(observed, expected), expected, samples)
    if freedom < MIN_FREEDOM:
        enough = f"{samples} samples leave {freedom + 1} outcomes to compare; take more samples or a higher temperature"
        return Finding(f"{JOINT} ({rule})", False, enough, samples)
    detail = (
        f"{settings.drafter}, rule {rule}, T={settings.temperature:g}, top-k {settings.top_k}: joint distribution of "
        f"{length} tokens over {len(expected)} outcomes, chi-square {statistic:.1f} with {freedom} degrees of freedom, "
        f"p = {p_value:.3g}; false alarm {FALSE_ALARM:g}"
    )
    return Finding(f"{JOINT} ({rule})", p_value >= FALSE_ALARM, detail, samples, p_value=p_value)


def _distance(expected: Joint, settings: Settings, length: int, samples: int, observed: Counts) -> Finding:
    """The distance of a lossy rule's joint distribution from the target's own; it always passes.

    Samples of the target's own distribution are also at a distance from it, which is reported too.
    """
    found = _distance_of(expected, settings, length, samples, observed)
    rule = settings.options(RuleOptions).rule
    divergence = math.inf if found.kl is None else found.kl
    detail = (
        f"{settings.drafter}, rule {rule}, lossy by design: joint distribution of {length} tokens at "
        f"T={settings.temperature:g}, top-k {settings.top_k}: "
        f"total variation {found.total_variation:.3f} (sampling alone: {found.sampling_total_variation:.3f}), "
        f"KL to the target's {divergence:.3f} nats (sampling alone: {found.sampling_kl:.3f})"
    )
    name = f"{DISTANCE} ({rule})"
    return Finding(name, True, detail, samples, total_variation=found.total_variation, kl=found.kl)


@dataclass(frozen=True)
class Distance:
    """The distance of the joint distribution of `tokens` tokens, sampled in `samples` runs, from the target's own.

    `sampling_*` is how far as many samples of the target's very distribution are expected to lie from it. KL is in
    nats, of what was written to the target's distribution; None where infinite.
    """

    total_variation: float
    kl: float | None
    sampling_total_variation: float
    sampling_kl: float
    tokens: int
    top_k: int
    samples: int


def joint_distance(lab: Lab, prompt: list[int], settings: Settings, length: int, samples: int) -> Distance:
    """Samples the joint distribution of `length` tokens after `prompt` with the real loop, and measures its distance
    from the target's own."""
    observed = sampled_joint(lab, prompt, settings, length, samples)
    return _distance_of(_expected(lab, prompt, settings, length), settings, length, samples, observed)


def _distance_of(expected: Joint, settings: Settings, length: int, samples: int, observed: Counts) -> Distance:
    observed = along(observed, expected)
    apart, divergence = distances({outcome: seen / samples for outcome, seen in observed.items()}, expected)
    return Distance(
        total_variation=apart,
        kl=divergence if math.isfinite(divergence) else None,
        sampling_total_variation=sum(math.sqrt(p * (1 - p) / (2 * math.pi * samples)) for p in expected.values()),
        sampling_kl=(len(expected) - 1) / (2 * samples),
        tokens=length,
        top_k=settings.top_k,
        samples=samples,
    )


def distances(written: Joint, target: Joint) -> tuple[float, float]:
    """Total variation of two joint distributions, and KL(written || target) in nats, which may be infinite."""
    outcomes = written.keys() | target.keys()
    apart = sum(abs(written.get(each, 0.0) - target.get(each, 0.0)) for each in outcomes) / 2
    if any(mass and not target.get(each) for each, mass in written.items()):
        return apart, math.inf
    return apart, sum(mass * math.log(mass / target[each]) for each, mass in written.items() if mass)


def _expected(lab: Lab, prompt: list[int], settings: Settings, length: int) -> Joint:
    """The target's own distribution of the next `length` tokens, as these settings sample."""
    return exact_joint(lab, prompt, Sampling.of(settings), length, unclear=_unclear(lab))


@torch.inference_mode()
def exact_joint(lab: Lab, prompt: list[int], sampling: Sampling, length: int, unclear: float = 0.0) -> Joint:
    """The target's own distribution of the next `length` tokens, with every prefix read from scratch.

    Where the last logit that top-k keeps leads the first that it drops by less than the share `unclear` of its size,
    rounding decides what is kept, and two right forwards may disagree. Such a prefix is an outcome by itself.
    """
    joint: Joint = {(): 1.0}
    ended: Joint = {}
    for _ in range(length):
        prefixes = list(joint)
        rows = torch.tensor([[*prompt, *prefix] for prefix in prefixes], device=lab.target.device)
        offsets = torch.arange(rows.shape[1], device=rows.device).expand(len(prefixes), -1)
        cache = lab.target.cache(len(prefixes), rows.shape[1])
        logits = lab.target.forward(cache, rows, offsets, last_only=True)[:, 0]
        for prefix, row in zip(prefixes, logits.float(), strict=True):
            if _edge(row, sampling.top_k) < unclear:
                ended[prefix] = joint.pop(prefix)
        distributions = sampling.distribution(logits).double().cpu()
        distributions = distributions / distributions.sum(-1, keepdim=True)
        joint = {
            (*prefix, token): joint[prefix] * float(distribution[token])
            for prefix, distribution in zip(prefixes, distributions, strict=True)
            for token in distribution.nonzero()[:, 0].tolist()
            if prefix in joint
        }
        if not joint:
            break
    return joint | ended


def _edge(logits: Tensor, top_k: int) -> float:
    """The difference of the last logit [V] that top-k keeps and the first that it drops, relative to their size."""
    if not 0 < top_k < len(logits):
        return math.inf
    *_, kept, dropped = logits.topk(top_k + 1).values.tolist()
    return float((kept - dropped) / max(abs(kept), 1.0))


def _unclear(lab: Lab) -> float:
    """Logits closer than four steps of the target's number format may change order between forwards."""
    return 4.0 * torch.finfo(lab.target.dtype).eps


def _telling(
    lab: Lab, prompts: Sequence[str], settings: Settings, length: int, samples: int
) -> tuple[str, Settings, Joint | None]:
    """The first prompt, and the first top-k from the settings' own on, with enough outcomes to compare: with the
    target's own distribution of them.

    In 16 bits, rounding may decide what top-k keeps after a prompt; then hardly any outcome is left.
    """
    for top_k, prompt in product(range(settings.top_k, settings.top_k + TOP_KS), prompts):
        there = settings.model_copy(update={"top_k": top_k})
        expected = _expected(lab, lab.encode(prompt, length + 2), there, length)
        if sum(probability * samples >= LEAST_DUE for probability in expected.values()) > MIN_FREEDOM:
            return prompt, there, expected
    return prompts[0], settings, None


def along(observed: Counts, expected: Joint) -> Counts:
    """The observed outcomes, shortened to prefixes that are outcomes of `expected`."""
    found: Counts = Counter()
    for outcome, seen in observed.items():
        found[next((outcome[:k] for k in range(len(outcome)) if outcome[:k] in expected), outcome)] += seen
    return found


def sampled_joint(
    lab: Lab, prompt: list[int], settings: Settings, length: int, samples: int, batch: int = BATCH, whole: bool = False
) -> Counts:
    """How often the real loop wrote each outcome. Every sample has its own random stream.

    A sequence ends once its outcome is written, which no later round changes. `whole` decodes it to its end: for
    drafters that decide for all rows of a batch together.
    """
    runs = sampling(lab, prompt, settings, length, samples, batch, (lambda _: None) if whole else None)
    while True:
        try:
            next(runs)
        except StopIteration as end:
            counts: Counts = end.value
            return counts


def sampling(
    lab: Lab,
    prompt: list[int],
    settings: Settings,
    length: int,
    samples: int,
    batch: int = BATCH,
    seen: Callable[[Step], None] | None = None,
    first: int = 0,
) -> Generator[float, None, Counts]:
    """`sampled_joint`, round by round: yields the share of the tokens that are written. `seen` is called with every
    round of the whole runs. The random streams are those from number `first` on: other runs must have others."""
    settings = settings.model_copy(update={"max_new_tokens": length + 2})
    if not lab.batches:
        batch = 1  # this model decodes one text at a time
    counts: Counts = Counter()
    for start in range(0, samples, batch):
        ids = range(start, min(start + batch, samples))
        streams = tuple(first + each for each in ids)
        session = lab.session_of([prompt] * len(ids), settings, streams, ends=False)
        for step in session.steps():
            written = [len(transcript.tokens) for transcript in session.transcripts]
            if seen is None:
                session.stop({row for row, tokens in enumerate(written) if tokens >= length})
            else:
                seen(step)
            yield (start + sum(written) / (length + 2)) / samples
        counts.update(tuple(transcript.tokens[:length]) for transcript in session.transcripts)
    return counts


def chi_square(observed: Counts, expected: Joint, samples: int) -> tuple[float, int, float]:
    """Statistic, degrees of freedom and p-value. Outcomes expected fewer than `LEAST_DUE` times are pooled.

    An outcome that the target cannot write gives p = 0.
    """
    if any(outcome not in expected for outcome in observed):
        return float("inf"), len(expected) - 1, 0.0
    cells: list[tuple[float, float]] = []
    rare_seen = rare_due = 0.0
    for outcome, probability in expected.items():
        due = probability * samples
        if due >= LEAST_DUE:
            cells.append((observed[outcome], due))
        else:
            rare_seen, rare_due = rare_seen + observed[outcome], rare_due + due
    if rare_due > 0:
        cells.append((rare_seen, rare_due))
    if len(cells) < 2:
        return 0.0, 0, 1.0
    from scipy import stats  # not at the top: it takes longer to import than the rest of this module

    seen, due = np.array(cells).T
    found = stats.chisquare(seen, due * seen.sum() / due.sum())  # they sum to 1 except for rounding
    return float(found.statistic), len(cells) - 1, float(found.pvalue)


def _written(lab: Lab, prompt: str, settings: Settings) -> list[int]:
    run = lab.session(prompt, settings, record=False)
    for _ in run.steps():
        pass
    return run.token_ids


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """The number of equal leading tokens."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))
