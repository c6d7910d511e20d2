"""Questions about one round: which guesses the target keeps, and how many tokens that makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from draftscope.trace.events import Round, Verified
from draftscope_app.doors.learn.classroom.questions import Bar, Question, Spec, bars_of, probability
from draftscope_app.doors.learn.classroom.recorded_lanes import (
    Lane,
    decoded,
    guesses_of,
    is_word,
    readable,
    verified_in,
)

CLEAR = 0.15  # of a probability, and between u and its threshold: so much can be seen
Maker = Callable[[], Question]


def survive(spec: Spec, lane: Lane) -> Iterator[Maker]:
    """How many guesses the target keeps: the rounds in which it is not obvious, or those that keep all."""
    for number, round_ in _sorted(spec, _whole if spec.whole else _broken, lane):
        yield partial(_survival, spec, lane, number, round_)


def _survival(spec: Spec, lane: Lane, number: int, round_: Round) -> Question:
    kept, of = round_.accepted, len(round_.nodes)
    options = tuple(map(str, range(of + 1)))
    last = readable(round_.last.raw)
    added = f"All were kept, and the target added {last}, its bonus. {of + 1} tokens for one pass of the target."
    return Question(
        lesson=spec.lesson,
        ask=spec.ask or f"How many of the {of} guesses does the target keep?",
        context=lane.context(number),
        options=options,
        truth=kept,
        said=_refused(round_) if kept < of else added,
        bars=_frequencies(options, (r.accepted for _, r in lane.drafted() if len(r.nodes) == of)),
        guesses=guesses_of(round_),
    )


def bonus(spec: Spec, lane: Lane) -> Iterator[Maker]:
    """How many tokens a round gives that keeps all of its guesses."""
    for number, round_ in _sorted(spec, _whole, lane):
        yield partial(_bonus, spec, lane, number, round_)


def _bonus(spec: Spec, lane: Lane, number: int, round_: Round) -> Question:
    of, last = len(round_.nodes), readable(round_.last.raw)
    options = tuple(map(str, range(1, of + 3)))
    return Question(
        lesson=spec.lesson,
        ask=spec.ask or f"The target keeps all {of} guesses. How many tokens does the text gain in this pass?",
        context=lane.context(number),
        options=options,
        truth=of,
        said=f"The pass has read all {of} guesses, so it also knows what follows the last of them: the target adds "
        f"{last}, its bonus.",
        bars=_frequencies(options, (r.accepted + 1 for _, r in lane.drafted() if len(r.nodes) == of), least=1),
        guesses=guesses_of(round_),
    )


def refuse(spec: Spec, lane: Lane) -> Iterator[Maker]:
    """Which of several guesses is the first that the target does not keep."""
    for number, round_ in _sorted(spec, _broken, lane):
        yield partial(_refusal, spec, lane, number, round_)


def _refusal(spec: Spec, lane: Lane, number: int, round_: Round) -> Question:
    options = (*(readable(node.raw) for node in round_.nodes), "none of them")
    p = [node.p for node in round_.nodes]
    return Question(
        lesson=spec.lesson,
        ask=spec.ask or "Which guess does the target refuse?",
        context=lane.context(number),
        options=options,
        truth=round_.accepted,
        said=_refused(round_),
        bars=bars_of(options, (*p, 0.0), (*(f"p {probability(value)}" for value in p), "")),
        guesses=guesses_of(round_),
    )


def kept(spec: Spec, lane: Lane) -> Iterator[Maker]:
    """One guess that a random number decides: its ratio is neither 0 nor 1."""
    verdicts = []
    for number, round_ in lane.drafted():
        for node, judged in zip(round_.nodes, verified_in(round_), strict=False):
            if judged.q is None or judged.threshold is None or judged.uniform is None:
                continue
            if 0.1 < judged.threshold < 0.95:
                before = "".join(raw.raw for raw in round_.nodes[: node.depth - 1])
                clear = is_word(node.raw) and judged.q > CLEAR and abs(judged.uniform - judged.threshold) > CLEAR
                verdicts.append((clear, partial(_verdict, spec, lane, number, round_, judged, before, node.raw)))
    yield from (maker for clear, maker in verdicts if clear or not spec.words)


def _verdict(spec: Spec, lane: Lane, number: int, round_: Round, judged: Verified, before: str, raw: str) -> Question:
    assert judged.q is not None and judged.threshold is not None and judged.uniform is not None
    u, ratio = probability(judged.uniform), probability(judged.threshold)
    options = ("kept", "refused")
    chances = (judged.threshold, 1 - judged.threshold)
    return Question(
        lesson=spec.lesson,
        ask=spec.ask or f"Is the guess {readable(raw)} kept?",
        context=f"{lane.context(number)}{decoded(before)}",
        options=options,
        truth=0 if judged.passed else 1,
        said=f"The random number u = {u} is {'below' if judged.passed else 'not below'} min(1, p/q) = {ratio}, so the "
        f"guess was {options[not judged.passed]}.",
        bars=bars_of(options, chances, [f"probability {probability(chance)}" for chance in chances]),
        guesses=guesses_of(round_)[judged.node : judged.node + 1],
        hints=(
            f"The draft gives it q = {probability(judged.q)}, the target p = {probability(judged.p)}.",
            f"It is kept if a random number u is below min(1, p/q) = {ratio}.",
            f"The random number is u = {u}.",
        ),
    )


def _whole(round_: Round) -> bool:
    return round_.accepted == len(round_.nodes)


def _broken(round_: Round) -> bool:
    return 0 < round_.accepted < len(round_.nodes)


def _sorted(spec: Spec, fits: Callable[[Round], bool], lane: Lane) -> list[tuple[int, Round]]:
    """The lane's rounds that fit, in order; with `words` those of words, from the clearest."""
    fitting = [(number, round_) for number, round_ in lane.drafted() if fits(round_)]
    if not spec.words:
        return fitting
    judged = [(number, r) for number, r in fitting if all(is_word(node.raw) for node in r.nodes[: r.accepted + 1])]
    return sorted(judged, key=lambda numbered: _clearness(numbered[1]), reverse=True)


def _clearness(round_: Round) -> float:
    """How much likelier for the target the least likely kept guess is than the one that it refused."""
    kept_p = min(node.p for node in round_.nodes[: round_.accepted])
    return kept_p if _whole(round_) else kept_p - round_.nodes[round_.accepted].p


def _refused(round_: Round) -> str:
    """Why the first refused guess fell."""
    guess = round_.nodes[round_.accepted]
    drafted = "" if guess.q is None else f", the draft {probability(guess.q)}"
    return (
        f"The target gives {readable(guess.raw)} a probability of {probability(guess.p)}{drafted}: refused, and "
        f"{readable(round_.last.raw)} is written instead. What was guessed after a refused token is never judged."
    )


def _frequencies(options: tuple[str, ...], numbers: Iterable[int], least: int = 0) -> tuple[Bar, ...]:
    """How often each of the numbers from `least` on occurred in the lane."""
    counts = Counter(numbers)
    times = [counts[least + n] for n in range(len(options))]
    return bars_of(options, times, [f"{n} of {counts.total()} rounds" for n in times])
