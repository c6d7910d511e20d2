"""Tests of a drafter above temperature 0: many runs of the real loop, and what their random numbers, their drafted
tokens, their rounds and their joint distribution show.

They are made on texts on which the drafter is active: one that copies has nothing to copy after most prompts, and a
test there would pass whatever it did. So each prompt is also tried with plain's text begun again behind it, and a few
runs of each text show on which of them most drafted tokens are accepted and rejected. Those runs have random streams of
their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from draftscope import drafters
from draftscope.base.common_settings import LOSSY
from draftscope.base.steps import Steps, mapped, mapped_to
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.session import Step
from draftscope.drafters.options import RuleOptions
from draftscope.drafters.settings import Settings
from draftscope.measure.findings import FALSE_ALARM, Finding
from draftscope.measure.greedy_checks import GreedyTest
from draftscope.measure.joint import (
    MIN_DUE,
    Counts,
    Joint,
    along,
    chi_square,
    detectable_variation,
    distance_of,
    expected_joint,
    sampling,
)
from draftscope.measure.round_checks import Decisions, DraftedTokens, FavouredTokens, ProbabilitySums, UsedUniforms

LENGTH = 4  # tokens of the joint distribution
TOP_KS = 3  # values of top-k that are tried, from the test's own on
FAVOURED = 0.25  # runs for the test of the favoured tokens, of those for the joint distribution
WARPED_T, WARPED_TOP_P = 0.8, 0.95  # of every second text of those: a q from before them must show too
FEWEST_DECISIONS = 100  # accepted, and rejected; with fewer, a wrong rule or q would pass
MIN_FREEDOM = 4  # degrees of freedom; with fewer, a wrong distribution would pass
REPEATED, BEGUN = 24, 8  # tokens of plain's text that stand after a prompt, and that begin it again
PILOT = 32  # runs of a text that show how active the drafter is on it
PILOT_STREAM = 1 << 20  # the number of the first stream of those runs

# Names of findings. All but the first three get the name of the rule appended.
FRESH, SUMS, DRAFTED = "fresh random numbers", "sums of probabilities", "drafted tokens"
FAVOURED_TOKENS, JOINT = "tokens that the draft favours", "joint distribution"
DISTANCE = f"distance of the {JOINT}"


class Runs(NamedTuple):
    """How many runs are done, `of` how many."""

    done: float
    of: int

    @property
    def share(self) -> float:
        return self.done / self.of


def names_of_findings(rule: str) -> tuple[str, ...]:
    """The names of the findings of `sampled_tests`, in their order."""
    if rule in LOSSY:
        return FRESH, SUMS, DRAFTED, f"{DISTANCE} ({rule})"
    return FRESH, SUMS, DRAFTED, f"{FAVOURED_TOKENS} ({rule})", f"{JOINT} ({rule})"


def run_on_active_texts(
    case: GreedyTest, engine: DecodingEngine, settings: Settings, samples: int
) -> Iterator[Runs | Finding]:
    """`sampled_tests` after the texts on which the drafter is most active, those first that leave enough to compare."""
    yield from mapped_to(case.writing(), Runs(0, samples))
    texts = texts_of(case)
    lossy = settings.options(RuleOptions).rule in LOSSY
    tried, tested = PILOT * len(texts), math.ceil(samples * (1.0 if lossy else 1 + FAVOURED))
    of = tried + tested
    texts = yield from mapped(order_by_activity(engine, texts, settings), lambda done: Runs(tried * done, of))
    choosing = choose_text(engine, texts, settings, LENGTH, samples)
    text, there, expected = yield from mapped_to(choosing, Runs(tried, of))
    for step in sampled_tests(engine, text, there, LENGTH, samples, texts[: len(case.prompts)], expected):
        yield step if isinstance(step, Finding) else Runs(tried + tested * step, of)


def texts_of(case: GreedyTest) -> list[list[int]]:
    """The prompts; and each with what plain wrote after it, begun again. [tokens] each"""
    room = min(model.context for model in case.engine.models) - LENGTH - 2
    texts = [case.engine.encode(prompt, LENGTH + 2) for prompt in case.prompts]
    for text, written in zip(list(texts), case.plain, strict=True):
        again = [*text, *written[:REPEATED], *written[:BEGUN]]
        if len(written) > REPEATED and len(again) <= room and not case.engine.eos & set(again[len(text) :]):
            texts.append(again)
    return texts


def order_by_activity(
    engine: DecodingEngine, texts: Sequence[list[int]], settings: Settings
) -> Steps[float, list[list[int]]]:
    """The texts after which most drafted tokens are both accepted and rejected come first. Yields the share done in
    each round."""
    activity = []
    for k, text in enumerate(texts):
        decisions = Decisions()
        first = PILOT_STREAM + k * PILOT
        for share in sampling(engine, text, settings, LENGTH, PILOT, seen=decisions.add, first=first):
            yield (k + share) / len(texts)
        activity.append(min(decisions.accepted, decisions.rejected))
    return [texts[k] for k in sorted(range(len(texts)), key=lambda k: -activity[k])]


def choose_text(
    engine: DecodingEngine, texts: Sequence[list[int]], settings: Settings, length: int, samples: int
) -> Steps[None, tuple[list[int], Settings, Joint | None]]:
    """The first text, and the first top-k from the settings' own on, with enough outcomes to compare: with the target's
    own distribution of them.

    In 16 bits, rounding may decide what top-k keeps after a text; then hardly any outcome is left.
    """
    for text in texts:
        for top_k in range(settings.top_k, settings.top_k + TOP_KS):
            yield None
            there = settings.model_copy(update={"top_k": top_k})
            expected = expected_joint(engine, text, there, length)
            if sum(probability * samples >= MIN_DUE for probability in expected.values()) > MIN_FREEDOM:
                return text, there, expected
    return texts[0], settings, None


def sampled_tests(
    engine: DecodingEngine,
    text: list[int],
    settings: Settings,
    length: int,
    samples: int,
    texts: Sequence[list[int]],
    expected: Joint | None = None,
) -> Iterator[float | Finding]:
    """Decodes `samples` runs after `text`, and a quarter as many after all `texts`, without top-k, and after every
    second one with top-p and another temperature. Yields the share done after every round; then what their random
    numbers, their drafted tokens, their rounds, and their joint distribution show.

    `expected` is the target's own joint distribution, where it is known: nothing is left to compute at the end.
    """
    rule = settings.options(RuleOptions).rule
    used, sums, drafted, favoured, decisions = (
        UsedUniforms(), ProbabilitySums(), DraftedTokens(), FavouredTokens(), Decisions(),
    )  # fmt: skip

    def look_at(step: Step) -> None:
        for statistic in (used, sums, drafted, decisions):
            statistic.add(step)

    def look_at_whole(step: Step) -> None:
        drafted.add(step)
        favoured.add(step)

    share = 1.0 if rule in LOSSY else 1 / (1 + FAVOURED)
    expected = expected if expected is not None else expected_joint(engine, text, settings, length)
    observed = yield from _scaled(sampling(engine, text, settings, length, samples, seen=look_at), 0.0, share)
    if rule not in LOSSY:
        whole = settings.model_copy(update={"top_k": 0, "temperature": 1.0})
        warped = whole.model_copy(update={"top_p": WARPED_TOP_P, "temperature": WARPED_T})
        count = math.ceil(FAVOURED * samples / len(texts))
        for k, other in enumerate(texts):
            sampled_as, first = (whole, warped)[k % 2], samples + k * count
            runs = sampling(engine, other, sampled_as, length, count, seen=look_at_whole, first=first)
            yield from _scaled(runs, share + k * (1 - share) / len(texts), (1 - share) / len(texts))
    used.end()
    yield _fresh_uniforms(used, samples)
    yield _sums(sums, samples)
    yield _drafted_tokens(drafted, samples)
    if rule in LOSSY:
        yield _distance(expected, settings, length, samples, observed)
        return
    yield _favoured_tokens(favoured, settings)
    yield _distribution(expected, settings, length, samples, observed, decisions)


def _scaled(runs: Steps[float, Counts], start: float, share: float) -> Steps[float, Counts]:
    """The same, as a part of more: shares from `start` on."""
    return mapped(runs, lambda done: start + share * done)


def _fresh_uniforms(used: UsedUniforms, samples: int) -> Finding:
    detail = f"{used.again or 'none'} of {used.used:,} uniform random numbers used twice in a run"
    return Finding(FRESH, not used.again, detail, samples)


def _sums(sums: ProbabilitySums, samples: int) -> Finding:
    detail = (
        f"{sums.rows:,} rows sum to 1 up to {sums.target:.1g} (target) and {sums.draft:.1g} (draft); more than "
        f"{ProbabilitySums.MOST:g} would have been a difference"
    )
    return Finding(SUMS, max(sums.target, sums.draft) <= ProbabilitySums.MOST, detail, samples)


def _drafted_tokens(drafted: DraftedTokens, samples: int) -> Finding:
    """Whether drafted tokens follow the q that the drafter says it drew them from; see `round_checks.py`."""
    if not drafted.draws:
        return Finding(DRAFTED, True, "none was drawn by chance in these runs, so there is no q to test", samples)
    p_value = drafted.p_value
    detail = (
        f"{drafted.draws:,} drawn tokens have a mean q of {drafted.written[0] / drafted.draws:.4f} of the largest, "
        f"{drafted.due[0] / drafted.draws:.4f} due, p = {p_value:.3g}; {drafted.detectable(FALSE_ALARM):.4f} apart "
        f"would have been a difference; false alarm {FALSE_ALARM:g}"
    )
    return Finding(DRAFTED, p_value >= FALSE_ALARM, detail, samples, p_value=p_value)


def _favoured_tokens(favoured: FavouredTokens, settings: Settings) -> Finding:
    """Whether what the draft favours is written as often as the target says, over all rounds; see `round_checks.py`."""
    rule = settings.options(RuleOptions).rule
    name = f"{FAVOURED_TOKENS} ({rule})"
    if drafters.find(settings.drafter).synthetic:
        return Finding(name, True, "skipped: this draft knows the text that will be written", favoured.draws)
    if not favoured.draws:
        return Finding(name, True, "skipped: nothing was drafted in these runs", favoured.draws)
    share, due = favoured.written[0] / favoured.draws, favoured.due[0] / favoured.draws
    p_value = favoured.p_value
    detail = (
        f"share {share:.4f} of the first tokens of {favoured.draws:,} rounds, {due:.4f} due by the target's "
        f"distribution, p = {p_value:.3g}; {favoured.detectable(FALSE_ALARM):.4f} apart would have been a difference; "
        f"false alarm {FALSE_ALARM:g}"
    )
    return Finding(name, p_value >= FALSE_ALARM, detail, favoured.draws, p_value=p_value)


def _distribution(
    expected: Joint, settings: Settings, length: int, samples: int, observed: Counts, decisions: Decisions
) -> Finding:
    """Chi-square test of the joint distribution of the first `length` tokens against the target's own, computed path
    by path."""
    rule = settings.options(RuleOptions).rule
    name = f"{JOINT} ({rule})"
    statistic, freedom, p_value = chi_square(along(observed, expected), expected, samples)
    if freedom < MIN_FREEDOM:
        enough = f"{samples} samples leave {freedom + 1} outcomes to compare; take more samples or a higher temperature"
        return Finding(name, False, enough, samples)
    detail = (
        f"{settings.drafter}, rule {rule}, T={settings.temperature:g}, top-k {settings.top_k}: joint distribution of "
        f"{length} tokens over {len(expected)} outcomes, chi-square {statistic:.1f} with {freedom} degrees of freedom, "
        f"p = {p_value:.3g}; a total variation of {detectable_variation(freedom, samples, FALSE_ALARM):.2f} would have "
        f"been found nine times in ten; false alarm {FALSE_ALARM:g}; {decisions.accepted:,} drafted tokens were "
        f"accepted and {decisions.rejected:,} rejected by chance"
    )
    undecided = p_value >= FALSE_ALARM and min(decisions.accepted, decisions.rejected) < FEWEST_DECISIONS
    if undecided:
        detail += (
            f", fewer than {FEWEST_DECISIONS} of each: a wrong drafter could pass; give prompts on which it drafts "
            "more, or take more samples"
        )
    return Finding(name, p_value >= FALSE_ALARM, detail, samples, undecided=undecided, p_value=p_value)


def _distance(expected: Joint, settings: Settings, length: int, samples: int, observed: Counts) -> Finding:
    """The distance of a lossy rule's joint distribution from the target's own; it always passes.

    Samples of the target's own distribution are also at a distance from it, which is reported too.
    """
    distance = distance_of(expected, settings, length, samples, observed)
    rule = settings.options(RuleOptions).rule
    divergence = math.inf if distance.kl is None else distance.kl
    detail = (
        f"{settings.drafter}, rule {rule}, lossy by design: joint distribution of {length} tokens at "
        f"T={settings.temperature:g}, top-k {settings.top_k}: "
        f"total variation {distance.total_variation:.3f} (sampling alone: {distance.sampling_total_variation:.3f}), "
        f"KL to the target's {divergence:.3f} nats (sampling alone: {distance.sampling_kl:.3f})"
    )
    name = f"{DISTANCE} ({rule})"
    return Finding(name, True, detail, samples, total_variation=distance.total_variation, kl=distance.kl)
