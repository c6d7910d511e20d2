"""What an audit found, in a sentence."""

from __future__ import annotations

import math

from draftscope.servers.audit.bets import RepetitionBet
from draftscope.servers.audit.evidence import Evidence, PositionResult
from draftscope.servers.audit.greedy import GreedyResult
from draftscope.servers.audit.missed import Missed
from draftscope.servers.audit.reported import ReportedResult
from draftscope.servers.audit.two_servers import Compared
from draftscope.servers.audit.waves import Audited

CLEAR_Z = 5.0  # the mean log-probability is named as the difference from here on
CLEAR_AT_POSITION = math.log(1000)  # evidence for naming a position
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def ordinal(number: int) -> str:
    return ORDINALS[number - 1] if number <= len(ORDINALS) else f"{number}th"


def first_position(evidence: Evidence) -> PositionResult | None:
    """The first position at which the server's tokens alone are clear evidence of a difference."""
    return next((position for position in evidence.positions if position.evidence >= CLEAR_AT_POSITION), None)


def sampled_sentence(audited: Audited, missed: Missed) -> str:
    """On the texts above temperature 0."""
    evidence = audited.evidence
    if not audited.different:
        return (
            f"no difference found in {_texts(evidence)} at T = {audited.plan.sampling.temperature:g}; "
            f"{would_have_seen(missed)} (allowed for rounding: {evidence.allowance.nats:.2g} nats a token)"
        )
    place = first_position(evidence)
    where = f", at the latest from the {ordinal(place.position)} token on" if place else ""
    return f"differs from its target{where}: {'; '.join(_differences(evidence, place))}; {_texts(evidence)}"


def failures_sentence(audited: Audited | Compared) -> str:
    if not audited.failures:
        return ""
    ends = ", so the audit ended there" if audited.ended == "failures" else ""
    return f"the server failed at {len(audited.failures)} requests{ends} ({audited.failures[-1].rstrip('.')})"


def _differences(evidence: Evidence, place: PositionResult | None) -> list[str]:
    """The differences that are clear, those that a person can check most easily first."""
    clear, parts = [], evidence.parts
    if evidence.outside:
        clear.append(f"{evidence.outside} of its tokens are excluded by the settings")
    if parts["repetition"] > CLEAR_AT_POSITION:
        clear.append(_repeated(evidence.repetition))
    score, z = evidence.scored(place.position if place else 1)
    if abs(z) >= CLEAR_Z:
        clear.append(f"mean log-probability {abs(score):.2g} nats {'low' if score < 0 else 'high'}, z = {abs(z):.0f}")
    if not clear and parts["ranks"] > CLEAR_AT_POSITION:
        statistic, freedom, _ = evidence.chi_square
        clear.append(f"ranks are not those of samples, chi-square {statistic:.0f} with {freedom} degrees of freedom")
    if not clear:
        clear.append("some tokens come more often than they should")
    return clear


def _repeated(repetition: RepetitionBet) -> str:
    """Whole texts, or their beginnings only: the bet is on both."""
    if not repetition.identical:
        return "its texts begin alike more often than chance gives"
    pairs = "1 pair is" if repetition.identical == 1 else f"{repetition.identical:,} pairs are"
    return f"it repeats texts: {pairs} identical where chance gives {repetition.expected:.2g}"


def would_have_seen(missed: Missed) -> str:
    if missed.variation is None or missed.nats is None:
        return "too few texts to find even large differences"
    return f"would have seen a total variation of {missed.variation:.2g} in the ranks or {missed.nats:.2g} nats a token"


def greedy_sentence(result: GreedyResult) -> str:
    if result.differs:
        return f"greedy differs: {result.differs}"
    if result.untold:
        return (
            f"greedy parts from plain in {result.untold} of {result.texts} texts; without weights a tie cannot be told"
        )
    if result.ties:
        return f"greedy is identical except at {result.ties} {'tie' if result.ties == 1 else 'ties'}"
    return "greedy is identical"


def reported_sentence(result: ReportedResult) -> str:
    return f"its log-probabilities are not those of its tokens: {result.differs}"


def joined(*sentences: str) -> str:
    """One sentence with a capital and a full stop."""
    text = "; ".join(filter(None, sentences))
    return f"{text[:1].upper()}{text[1:]}."


def _texts(evidence: Evidence) -> str:
    return f"{evidence.texts:,} samples"
