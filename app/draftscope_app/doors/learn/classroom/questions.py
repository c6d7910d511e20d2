"""Questions about rounds that really happened. A phone gets what was known before the answer; the truth comes after.

Predicting before one sees the outcome is what makes a demonstration teach: Crouch et al., Am. J. Phys. 72:835 (2004).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from draftscope.base.errors import DraftscopeError
from draftscope.trace.events import AnyEvent, Fate, Round, Verified
from draftscope.trace.result import Result, Trace

Kind = Literal["survive", "refuse", "kept", "faster", "gap"]
CONTEXT = 90  # characters of the text before the round
PLACES = 4  # that a question about the longest gap offers
FEWEST_GUESSES = 2
OPTIONS_MOST, TEXT_MOST = 12, 400  # of a question; characters of each of its texts


class Guess(BaseModel):
    """A drafted token as a class sees it. `fate` and the numbers are the truth, which phones get after the reveal."""

    model_config = ConfigDict(frozen=True)

    text: str
    fate: Fate | Literal["correction", "bonus"] | None = None
    p: float | None = None
    q: float | None = None
    threshold: float | None = None
    u: float | None = None
    parent: int | None = None  # of a tree's guess: the index of the one before it, or -1


class Question(BaseModel):
    """What is asked, what can be answered, and how it was. `truth` is an index into `options`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lesson: str = Field("", max_length=TEXT_MOST)
    ask: str = Field(max_length=TEXT_MOST)
    context: str = Field("", max_length=TEXT_MOST)
    options: tuple[str, ...] = Field(min_length=2, max_length=OPTIONS_MOST)
    truth: int
    said: str = Field(max_length=2 * TEXT_MOST)  # at the reveal, in one or two sentences
    guesses: tuple[Guess, ...] = ()
    hints: tuple[str, ...] = ()  # shown one after the other, before the reveal

    def shown(self, hints: int, revealed: bool) -> dict[str, object]:
        """What phones may know: with the truth once it is revealed."""
        common = {"lesson": self.lesson, "ask": self.ask, "context": self.context, "options": self.options}
        if revealed:
            guesses = [guess.model_dump() for guess in self.guesses]
            return {**common, "hints": self.hints, "guesses": guesses, "truth": self.truth, "said": self.said}
        drafted = [{"text": g.text, "parent": g.parent} for g in self.guesses if g.fate not in ("correction", "bonus")]
        left = len(self.hints) - hints
        return {**common, "hints": self.hints[:hints], "hintsLeft": left, "guesses": drafted}


class Spec(BaseModel):
    """A question to be made from a recorded run: of which kind, about which lane, and which of its fitting rounds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    lesson: str = ""
    lane: str = ""
    lanes: dict[str, str] = {}  # that `faster` compares: lane -> what to call it; empty: all, by their names
    nth: int = 0  # of the rounds that fit
    whole: bool = False  # `survive`: a round of which every guess was kept


class Lane(Result):
    """One recorded lane."""

    def context(self, number: int) -> str:
        """The end of the text before the round with this index."""
        text = self.start.prompt + "".join(r.text_delta for r in self.arrivals[:number])
        words = " ".join(text.split())
        return words if len(words) <= CONTEXT else "… " + words[-CONTEXT:].split(" ", 1)[-1]

    def drafted(self) -> Iterator[tuple[int, Round]]:
        """The rounds with a whole chain of guesses, each judged by one decision a guess."""
        for number, round_ in enumerate(self.arrivals):
            if isinstance(round_, Round) and round_.cut is None and _is_chain(round_):
                yield number, round_


def lanes_of(events: Iterable[AnyEvent]) -> dict[str, Lane]:
    """The lanes of a recorded run by name, in order."""
    return {run.start.lane: Lane(run.events) for run in Trace(tuple(events))}


def make_question(spec: Spec, lanes: dict[str, Lane]) -> Question:
    """The question of that kind about a recorded run. Raises `DraftscopeError` where no round of it fits."""
    if spec.kind == "faster":
        return _faster(spec, lanes)
    lane = lanes.get(spec.lane)
    if lane is None:
        names = ", ".join(lanes) or "none"
        raise DraftscopeError(f"lane = '{spec.lane}': the run has no such lane; its lanes are {names}.")
    fitting = list(_MAKERS[spec.kind](spec, lane))
    if spec.nth >= len(fitting):
        raise DraftscopeError(
            f"nth = {spec.nth}: lane '{spec.lane}' has {len(fitting)} rounds for a question of kind '{spec.kind}'; "
            "choose a smaller number or another kind."
        )
    return fitting[spec.nth]()


Maker = Callable[[], Question]


def _survive(spec: Spec, lane: Lane) -> Iterator[Maker]:
    """How many guesses the target keeps: the rounds in which it is not obvious, or those that keep all."""
    for number, round_ in lane.drafted():
        kept, of = round_.accepted, len(round_.nodes)
        if kept == of if spec.whole else 0 < kept < of:
            yield partial(_survival, spec, lane, number, round_)


def _survival(spec: Spec, lane: Lane, number: int, round_: Round) -> Question:
    kept, of = round_.accepted, len(round_.nodes)
    last = readable(round_.last.raw)
    replaced = f"; the next one, {readable(round_.nodes[kept].raw)}, was replaced by {last}" if kept < of else ""
    added = f", and the target added {last}, its bonus"
    return Question(
        lesson=spec.lesson,
        ask=f"How many of the {of} guesses does the target keep?",
        context=lane.context(number),
        options=tuple(map(str, range(of + 1))),
        truth=kept,
        said=f"{kept} of {of} {'was' if kept == 1 else 'were'} kept{replaced or added}. "
        f"{len(round_.emitted)} tokens for one pass of the target.",
        guesses=guesses_of(round_),
    )


def _refuse(spec: Spec, lane: Lane) -> Iterator[Maker]:
    for number, round_ in lane.drafted():
        if 0 < round_.accepted < len(round_.nodes):
            yield partial(_refusal, spec, lane, number, round_)


def _refusal(spec: Spec, lane: Lane, number: int, round_: Round) -> Question:
    kept, guesses = round_.accepted, [readable(node.raw) for node in round_.nodes]
    return Question(
        lesson=spec.lesson,
        ask="Which guess does the target refuse?",
        context=lane.context(number),
        options=(*guesses, "none of them"),
        truth=kept,
        said=f"It kept {kept} and refused {guesses[kept]}, for which it wrote {readable(round_.last.raw)}. What was "
        "guessed after a refused token is never judged.",
        guesses=guesses_of(round_),
    )


def _kept(spec: Spec, lane: Lane) -> Iterator[Maker]:
    """One guess that a random number decides: its ratio is neither 0 nor 1."""
    for number, round_ in lane.drafted():
        for node, judged in zip(round_.nodes, _verified(round_), strict=False):
            if judged.q is None or judged.threshold is None or judged.uniform is None:
                continue
            if 0.1 < judged.threshold < 0.95:
                before = "".join(raw.raw for raw in round_.nodes[: node.depth - 1])
                yield partial(_verdict, spec, lane, number, round_, judged, before, node.raw)


def _verdict(spec: Spec, lane: Lane, number: int, round_: Round, judged: Verified, before: str, raw: str) -> Question:
    assert judged.q is not None and judged.threshold is not None and judged.uniform is not None
    u, ratio = _number(judged.uniform), _number(judged.threshold)
    verdict = "kept" if judged.passed else "refused"
    return Question(
        lesson=spec.lesson,
        ask=f"Is the guess {readable(raw)} kept?",
        context=f"{lane.context(number)}{decoded(before)}",
        options=("kept", "refused"),
        truth=0 if judged.passed else 1,
        said=f"The random number u = {u} is {'below' if judged.passed else 'not below'} min(1, p/q) = {ratio}, so the "
        f"guess was {verdict}.",
        guesses=guesses_of(round_)[judged.node : judged.node + 1],
        hints=(
            f"The draft gives it q = {_number(judged.q)}, the target p = {_number(judged.p)}.",
            f"It is kept if a random number u is below min(1, p/q) = {ratio}.",
            f"The random number is u = {u}.",
        ),
    )


def _gap(spec: Spec, lane: Lane) -> Iterator[Maker]:
    """After which tokens a reader waits longest: the longest gap of the run beside ordinary ones."""
    took = [round_.end - round_.start for round_ in lane.arrivals]
    if len(took) < 2 * PLACES:
        return
    longest = max(range(1, len(took)), key=took.__getitem__)
    usual = sorted(range(1, len(took)), key=lambda n: abs(took[n] - statistics.median(took)))
    places = sorted({longest, *[n for n in usual if n != longest][: PLACES - 1]})
    ms = [f"{took[n]:.0f} ms" for n in places]
    yield lambda: Question(
        lesson=spec.lesson,
        ask="Tokens arrive in bursts. Which of these bursts does a reader wait for longest?",
        context=lane.context(places[-1]),
        options=tuple(readable("".join(lane.arrivals[n].emitted_raw)) for n in places),
        truth=places.index(longest),
        said=f"The waits were {', '.join(ms)}. The median of all {len(took)} is {statistics.median(took):.0f} ms.",
    )


def _faster(spec: Spec, lanes: dict[str, Lane]) -> Question:
    """Which lane ends first, on its own clock, with its text as long as the others'."""
    missing = [name for name in spec.lanes if name not in lanes]
    if missing:
        raise DraftscopeError(f"lanes = {', '.join(missing)}: the run has {', '.join(lanes)}.")
    compared = [lanes[name] for name in spec.lanes or lanes if lanes[name].end is not None and lanes[name].arrivals]
    if len(compared) < 2:
        raise DraftscopeError("A question of kind 'faster' needs two lanes that have ended; name them in `lanes`.")
    speeds = [sum(len(r.emitted) for r in lane.arrivals) / (lane.arrivals[-1].end / 1e3) for lane in compared]
    first = speeds.index(max(speeds))
    names = [spec.lanes.get(lane.start.lane, lane.start.lane) for lane in compared]
    digits = 0 if max(speeds) >= 1000 else 1
    rates = "; ".join(f"{name} {speed:.{digits}f}" for name, speed in zip(names, speeds, strict=True))
    return Question(
        lesson=spec.lesson,
        ask="Which of these writes most tokens a second here?",
        context=compared[0].context(0),
        options=tuple(names),
        truth=first,
        said=f"Tokens a second, prompt included: {rates}.",
    )


_MAKERS: dict[Kind, Callable[[Spec, Lane], Iterator[Maker]]] = {
    "survive": _survive,
    "refuse": _refuse,
    "kept": _kept,
    "gap": _gap,
}


def guesses_of(round_: Round) -> tuple[Guess, ...]:
    """The drafted tokens of a chain with what became of them, then the target's own."""
    judged = {child.node: child for child in _verified(round_)}
    nodes = []
    for node in round_.nodes:
        child = judged.get(node.id)
        threshold, u = (child.threshold, child.uniform) if child else (None, None)
        nodes.append(Guess(text=readable(node.raw), fate=node.fate, p=node.p, q=node.q, threshold=threshold, u=u))
    kind: Literal["correction", "bonus"] = "correction" if round_.last.kind == "correction" else "bonus"
    return (*nodes, Guess(text=readable(round_.last.raw), fate=kind))


def _is_chain(round_: Round) -> bool:
    parents = [node.parent for node in round_.nodes]
    return len(parents) >= FEWEST_GUESSES and parents == list(range(-1, len(parents) - 1))


def _verified(round_: Round) -> list[Verified]:
    return [child for decision in round_.decisions for child in decision.children]


def decoded(raw: str) -> str:
    """A token's bytes as text; bytes that are no whole character become a replacement mark."""
    return raw.encode("latin-1").decode("utf-8", "replace")


def readable(raw: str) -> str:
    """A token so that its spaces and line breaks can be seen."""
    return decoded(raw).replace(" ", "·").replace("\n", "⏎").replace("\t", "⇥")


def _number(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")
