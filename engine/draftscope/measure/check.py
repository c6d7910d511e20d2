"""Checks whether a drafter's output differs from the target's, on one pair, by comparison and by samples.

Tests prove the rules by enumeration. On a real pair, caches, masks and random streams can still be wrong, which samples
reveal. So a check never says "exact": it says that no difference was found, in how many samples, and how likely a false
alarm is; and "undecided" where too little was drafted to find one. A greedy text that parts from plain's at a tie
(`ties.py`) is no difference; how many did is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from secrets import randbits
from time import monotonic
from traceback import extract_tb
from typing import Literal

from draftscope.base.common_settings import LOSSY
from draftscope.base.errors import MAX_NAMED, DraftscopeError, quoted
from draftscope.base.progress import Progress
from draftscope.base.steps import mapped
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.lane import Lane
from draftscope.decode.start import models_of
from draftscope.drafters import DrafterInfo
from draftscope.drafters.checked import keep_passed
from draftscope.drafters.options import LengthOptions, RuleOptions
from draftscope.drafters.settings import Settings
from draftscope.measure.findings import FALSE_ALARM, Finding, verdict
from draftscope.measure.findings import so_far as summary
from draftscope.measure.greedy_checks import PROMPTS, TESTS, GreedySteps, GreedyTest
from draftscope.measure.sampled import Runs, names_of_findings, run_on_active_texts
from draftscope.trace import events
from draftscope.verify.tree import even

TREE = (3, 2)  # in the distribution tests: siblings that are rejected, whatever tree would be fastest
CHAIN_T, TREE_T = 1.0, 2.0  # temperatures of the distribution tests; siblings are seldom all rejected at 1
MIN_SHARE = 0.02  # of the runs, after which the time left is estimated

ENGINE = Path(__file__).parents[1]
SECRET_BITS = 62
PROGRESS_S = 1.0  # between two events of a check that tell only how far it is


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
    so_far: str = ""  # what the findings say until the verdict
    verdict: str = ""


def checked(engine: DecodingEngine, settings: Settings, samples: int = 2048) -> Iterator[Checked | None]:
    """`check` with the drafter and rule of these settings, as events; None where there is nothing new to say."""
    lane = Lane.of(engine, settings.model_copy(update={"temperature": 1.0}))  # as the distribution is tested
    info, rule = lane.info, lane.rule.name if "rule" in lane.info.uses else None
    so_far = Checked(
        drafter=info.name,
        title=info.title,
        rule=rule or "",
        exact=lane.exact,
        models=[model.name for model in models_of(engine, info)],
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        samples=samples,
        tests=count_of_tests(info, rule),
        findings=[],
    )
    findings: list[Finding] = []
    reported_at = monotonic()
    yield so_far
    for step in steps(engine, info.name, samples, settings.seed, rule=rule, like=settings):
        if isinstance(step, Progress):
            so_far = so_far.model_copy(update=asdict(step))
            if monotonic() - reported_at < PROGRESS_S:
                yield None
                continue
        else:
            findings.append(step)
            done = verdict(findings, so_far.exact, not info.source) if len(findings) == so_far.tests else ""
            news = {"findings": [asdict(finding) for finding in findings], "verdict": done}
            so_far = so_far.model_copy(update=news | {"so_far": summary(findings, so_far.tests)})
        reported_at = monotonic()
        yield so_far


def check(
    engine: DecodingEngine,
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
    for step in steps(engine, drafter, samples, seed, rule, like, prompts):
        if isinstance(step, Progress):
            progress(step)
        else:
            yield step


def steps(
    engine: DecodingEngine,
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
    another distribution by design: how far it lies from the target's is reported as a number, not verified. A drafter
    from elsewhere gets other random numbers in every check: from a known seed it could compute those that judge it.
    """
    info = Lane.of(engine, Settings.of(drafter=drafter)).info
    rules = _rules_of(info, rule)
    seed = fresh_seed(seed) if info.source else seed
    case = GreedyTest(engine, info.name, seed, tuple(prompts))
    like = like or Settings.of()
    lossy, length = like.options(RuleOptions), like.options(LengthOptions)
    passed = True
    for test in TESTS:
        now = Progress(test.__name__.replace("_", " "))
        yield now
        finding = yield from mapped(_guarded(test, case, now.doing), partial(_or_still, now))
        passed = passed and finding.passed
        yield finding
    for after, tested in enumerate(rules, 1):
        settings = Settings.of(
            drafter=info.name, rule=tested, gamma=3, shape=TREE, typed=" the", top_k=3, seed=seed,
            temperature=CHAIN_T if "rule" in info.uses else TREE_T, lenience=lossy.lenience, agreement=lossy.agreement,
            draft_length=length.draft_length, confidence=length.confidence,
        )  # fmt: skip
        runs = _with_failures(
            run_on_active_texts(case, engine.with_tree(even(TREE)), settings, samples), names_of_findings(tested)
        )
        for result in _timed(runs, "joint distribution", len(rules) - after):
            passed = passed and (isinstance(result, Progress) or (result.passed and not result.undecided))
            yield result
    if passed and rule not in LOSSY:
        keep_passed(info, engine.target.digest)


def count_of_tests(info: DrafterInfo, rule: str | None) -> int:
    """How many findings a check of that drafter makes."""
    return len(TESTS) + sum(len(names_of_findings(tested)) for tested in _rules_of(info, rule))


def _rules_of(info: DrafterInfo, rule: str | None) -> tuple[str, ...]:
    """The rules that a check tests. Raises `DraftscopeError` for one that the drafter cannot take."""
    chooses = "rule" in info.uses
    if rule is not None and not chooses:
        raise DraftscopeError(f"rule = '{rule}': '{info.name}' has no choice of rule; leave it out.")
    return (rule,) if rule is not None else ("block", "token") if chooses else ("block",)


def fresh_seed(seed: int) -> int:
    """One that nobody can guess."""
    return seed ^ randbits(SECRET_BITS)


def _or_still(now: Progress, part: Progress | None) -> Progress:
    """The test, and how far it is where it says so."""
    return now if part is None else replace(part, doing=f"{now.doing}, {part.doing}")


def _guarded(test: Callable[[GreedyTest], GreedySteps], case: GreedyTest, name: str) -> GreedySteps:
    """The test's steps and its finding; an exception of the engine is one too. Where the first test is refused, the
    question was wrong, not the engine: DraftscopeError."""
    try:
        return (yield from test(case))
    except Exception as error:
        if isinstance(error, DraftscopeError) and test is TESTS[0]:
            raise
        return _engine_error(name, error)


def _with_failures(runs: Iterator[Runs | Finding], names: Sequence[str]) -> Iterator[Runs | Finding]:
    """The same; where the engine ends with an exception, that is the finding of each of `names` that was not made."""
    made = 0
    try:
        for item in runs:
            made += isinstance(item, Finding)
            yield item
    except Exception as error:
        yield from (_engine_error(name, error) for name in names[made:])


def _engine_error(name: str, error: Exception) -> Finding:
    """The finding that the engine ended a test with an exception: which one, and where."""
    frames = [frame for frame in extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(ENGINE)]
    where = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    kind, message = type(error).__name__, quoted(str(error), MAX_NAMED)
    return Finding(name, False, f"not tested: the engine ended with {kind}{where}: {message}", error=kind)


def _timed(runs: Iterator[Runs | Finding], doing: str, more: int) -> Iterator[Progress | Finding]:
    """The runs done as progress, with the time left for these runs and for as many again, `more` times."""
    began = monotonic()
    for step in runs:
        if isinstance(step, Finding):
            yield step
            continue
        spent, share = monotonic() - began, step.share
        left = spent / share * (1.0 - share + more) if share >= MIN_SHARE else None
        yield Progress(f"{doing}, {int(step.done):,} of {step.of:,} samples", share, left)
