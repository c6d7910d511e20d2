"""From what a visitor has set to a job that answers it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from draftscope.advise.question import Asked, Objective, Question
from draftscope.base.errors import DraftscopeError, quoted
from draftscope.drafters.settings import Settings
from draftscope_app.engine.admission import text_of
from draftscope_app.engine.config import Limits
from draftscope_app.engine.jobs import AdviseJob, DrafterChoice, new_id
from draftscope_app.page import bundle

ALL_KINDS = "all"
MIN_S, USUAL_S, MAX_S = 5, 30, 120
MAX_PROMPTS = 50


def job(values: Mapping[str, Any], known: Sequence[DrafterChoice], limits: Limits, chat: bool = False) -> AdviseJob:
    """The question as a job; `chat`: the target answers in a chat.

    Raises `DraftscopeError` for a value that no question may have.
    """
    question = Question(
        objective=_objective(values["objective"]),
        temperature=_number("temperature", values["temperature"]),
        length=_whole("tokens of an answer", values["length"]),
        concurrency=_whole("concurrent requests", values["concurrency"]),
        price_per_hour=_price(values),
        seconds=_number("seconds", values["seconds"]),
    )
    if not MIN_S <= question.seconds <= MAX_S:
        raise DraftscopeError(f"seconds = {question.seconds:g}: choose {MIN_S} to {MAX_S}.")
    if question.length > limits.max_tokens:
        raise DraftscopeError(
            f"length = {question.length}: this page writes at most {limits.max_tokens} tokens; use the command line "
            "for more."
        )
    prompts = visitor_prompts(values["own"]) or shipped(values["kind"], chat)
    wish = Asked(question, prompts, _drafters(values["drafters"], known))
    lane = Settings.of(drafter="plain", max_new_tokens=question.length)
    prompt = "\n".join(text for texts in prompts.values() for text in texts)
    return AdviseJob(id=new_id(), prompt=prompt, lanes={"advise": lane}, wish=wish)


def visitor_prompts(text: Any) -> dict[str, list[str]]:
    """The visitor's prompts, one per line; empty where there is none."""
    lines = [line.strip() for line in text_of(text or "").splitlines() if line.strip()]
    if len(lines) > MAX_PROMPTS:
        raise DraftscopeError(f"{len(lines)} prompts are more than can be measured here; give at most {MAX_PROMPTS}.")
    return {"your prompts": list(dict.fromkeys(lines))} if lines else {}


def shipped(kind: Any, chat: bool = False) -> dict[str, list[str]]:
    """The shipped prompts of one kind, or of all: questions for a `chat` model, else texts to continue."""
    every = bundle.presets(chat)
    if kind == ALL_KINDS:
        return every
    if kind not in every:
        raise DraftscopeError(f"There is no kind of text {quoted(str(kind))}; choose {', '.join(every)}.")
    return {kind: every[kind]}


def offered(known: Sequence[DrafterChoice]) -> list[tuple[str, str]]:
    """Title and name of the drafters that can be compared: they run here, and need neither a person nor arms."""
    return [
        (d.title, d.name) for d in known if d.available and d.name != "plain" and not {"typed", "arms"} & set(d.uses)
    ]


def alpha_override(value: Any) -> float | None:
    """The slider of the acceptance: 0 is the measured one. Anything else that a page may send is taken as that."""
    known = isinstance(value, int | float) and 0 < value < 1
    return float(value) if known else None


def draft_cost_factor(value: Any) -> float:
    """The slider of the draft's cost, within its ends; 1 for anything that is no number."""
    known = isinstance(value, int | float) and math.isfinite(value)
    return min(max(float(value), 0.1), 3.0) if known else 1.0


def _drafters(chosen: Any, known: Sequence[DrafterChoice]) -> tuple[str, ...]:
    names = [name for _, name in offered(known)]
    for name in chosen or ():
        if name not in names:
            raise DraftscopeError(f"The drafter {quoted(str(name))} cannot be compared here; choose from the list.")
    return tuple(chosen or ())


def _objective(value: Any) -> Objective:
    try:
        return Objective(value)
    except ValueError:
        raise DraftscopeError(f"objective = {quoted(str(value))}: choose {', '.join(Objective)}.") from None


def _price(values: Mapping[str, Any]) -> float | None:
    """Only asked for if money counts."""
    if values["objective"] != Objective.COST:
        return None
    return _number("price of an hour", values["price_per_hour"])


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DraftscopeError(f"{name}: {quoted(str(value))} is not a number.")
    return float(value)


def _whole(name: str, value: Any) -> int:
    number = _number(name, value)
    if number != int(number):
        raise DraftscopeError(f"{name} = {number:g}: a whole number is needed.")
    return int(number)
