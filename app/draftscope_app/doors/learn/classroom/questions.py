"""Questions about what really happened. A phone gets what was known before the answer; the truth comes after.

Predicting before one sees the outcome is what makes a demonstration teach: Crouch et al., Am. J. Phys. 72:835 (2004).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from draftscope.trace.events import Fate

Kind = Literal["survive", "bonus", "refuse", "kept", "faster", "waits", "rows", "off", "gap"]
OPTIONS_MOST, TEXT_MOST = 12, 400  # of a question; characters of each of its texts
SHORT = Field(max_length=TEXT_MOST)


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


class Bar(BaseModel):
    """A named quantity: `part`, 0 to 1, of the largest one beside it."""

    model_config = ConfigDict(frozen=True)

    name: str = SHORT
    value: str = SHORT
    part: float = Field(ge=0, le=1)


class Question(BaseModel):
    """What is asked, what can be answered, and how it was. `truth` is an index into `options`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lesson: str = Field("", max_length=TEXT_MOST)
    ask: str = Field(max_length=TEXT_MOST)
    context: str = Field("", max_length=TEXT_MOST)
    options: tuple[str, ...] = Field(min_length=2, max_length=OPTIONS_MOST)
    truth: int
    said: str = Field(max_length=2 * TEXT_MOST)  # at the reveal, in one or two sentences: why
    bars: tuple[Bar, ...] = ()  # what was measured of each option, which phones get after the reveal; or none
    guesses: tuple[Guess, ...] = ()
    hints: tuple[str, ...] = ()  # shown one after the other, before the reveal

    def shown(self, hints: int, revealed: bool) -> dict[str, object]:
        """What phones may know: with the truth once it is revealed."""
        common = {"lesson": self.lesson, "ask": self.ask, "context": self.context, "options": self.options}
        if revealed:
            guesses = [guess.model_dump() for guess in self.guesses]
            bars = [bar.model_dump() for bar in self.bars]
            revealed_parts = {"guesses": guesses, "bars": bars, "truth": self.truth, "said": self.said}
            return {**common, "hints": self.hints, **revealed_parts}
        drafted = [{"text": g.text, "parent": g.parent} for g in self.guesses if g.fate not in ("correction", "bonus")]
        left = len(self.hints) - hints
        return {**common, "hints": self.hints[:hints], "hintsLeft": left, "guesses": drafted, "bars": []}


class Spec(BaseModel):
    """A question to be made from a recorded run: of which kind, about which lane, and which of its fitting rounds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    lesson: str = ""
    ask: str = ""  # in place of the words of its kind
    lane: str = ""
    lanes: dict[str, str] = {}  # that are compared: lane -> what to call it; empty: all, by their names
    per: Literal["second", "pass"] = "second"  # `faster`: tokens of what
    nth: int = 0  # of the rounds that fit
    whole: bool = False  # `survive`: a round of which every guess was kept
    words: bool = False  # a round whose judged guesses are words, the clearest first


def bars_of(options: Sequence[str], quantities: Sequence[float], values: Sequence[str]) -> tuple[Bar, ...]:
    """A bar for each option, as long as its quantity beside the largest one."""
    most = max(*quantities, 1e-12)
    named = zip(options, quantities, values, strict=True)
    return tuple(Bar(name=name, part=quantity / most, value=value) for name, quantity, value in named)


def probability(value: float) -> str:
    """'.62', '<.01', '1.00'."""
    return "<.01" if 0 < value < 0.005 else f"{value:.2f}".removeprefix("0")
