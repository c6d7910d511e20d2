"""Between the page's controls, the address's query and the engine's settings. Pure; no gradio, no engine process."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from draftscope.base.errors import DraftscopeError
from draftscope.drafters.settings import Settings
from draftscope_app.engine.config import Limits
from draftscope_app.engine.messages import DrafterChoice

LANE = "speculative"  # the drafting lane's name; the other one is "plain"


@dataclass(frozen=True)
class Controls:
    """Everything that a visitor sets, in the order in which the page lists it. The names are the address's too."""

    prompt: str = ""
    drafter: str = "draft"
    gamma: int = 4
    draft_length: str = "fixed"
    confidence: float = 0.4
    shape: str = "3, 2, 1"
    tree_nodes: int = 16
    tree_depth: int = 5
    tree_width: int = 4
    ngram: int = 3
    window: int = 5
    typed: str = ""
    prefetch: int = 8
    policy: str = "ucb"
    arms: str = ", ".join(Settings.model_fields["arms"].default)
    inner: str = "ngram"
    exit_layer: str = ""
    oracle_alpha: float = 0.8
    rule: str = "block"
    lenience: float = 0.5
    agreement: int = 3
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    max_new_tokens: int = 128


NAMES = tuple(field.name for field in fields(Controls))
DRAFTERS_OWN = (  # shown only where the drafter reads them
    "gamma", "draft_length", "confidence", "shape", "tree_nodes", "tree_depth", "tree_width", "ngram", "window",
    "typed", "prefetch", "policy", "arms", "inner", "exit_layer", "oracle_alpha", "rule", "lenience", "agreement",
)  # fmt: skip
WHOLE = ("gamma", "tree_nodes", "tree_depth", "tree_width", "ngram", "window", "prefetch", "agreement")
READ_WITH = {  # settings that only some values of another one read
    "confidence": ("draft_length", ("confidence", "specdec++", "adaedl")),
    "lenience": ("rule", ("lenient",)),
    "agreement": ("rule", ("top-k",)),
}


def from_query(query: Mapping[str, str], defaults: Controls) -> tuple[Controls, str]:
    """Settings of an address, and one sentence on what could not be read (then the default stands)."""
    values: dict[str, Any] = {}
    odd: list[str] = []
    for name in NAMES:
        if name not in query:
            continue
        default = getattr(defaults, name)
        try:
            value = type(default)(query[name])
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(name)
            values[name] = value
        except ValueError:
            odd.append(f"{name} = {query[name][:40]!r}")
    sentence = f"The address holds {' and '.join(odd)}, which is not a number; the default is used." if odd else ""
    return replace(defaults, **values), sentence


def lanes(
    controls: Controls, drafter: DrafterChoice | None, most_tokens: int = Limits.most_tokens
) -> tuple[tuple[str, dict[str, Any]], ...]:
    """The lanes to race, validated: plain beside the chosen drafter, or plain alone."""
    common: dict[str, Any] = {
        "temperature": controls.temperature,
        "top_k": _whole("top_k", controls.top_k),
        "top_p": controls.top_p,
        "min_p": controls.min_p,
        "seed": _whole("seed", controls.seed),
        "max_new_tokens": _whole("length", controls.max_new_tokens),
    }
    if common["max_new_tokens"] > most_tokens:
        raise DraftscopeError(
            f"length = {common['max_new_tokens']}: this page writes at most {most_tokens} tokens; "
            "use the command line for more."
        )
    if drafter is not None and not drafter.available:
        raise DraftscopeError(f"The drafter '{drafter.name}' cannot run here: {drafter.why_not}; choose another.")
    if controls.drafter == "plain":
        return (checked("plain", common | {"drafter": "plain"}),)
    uses = drafter.uses if drafter is not None else DRAFTERS_OWN
    chosen = {name: getattr(controls, name) for name, _ in READ_WITH.values()}
    own: dict[str, Any] = {name: _own(name, controls) for name in DRAFTERS_OWN if is_read(name, uses, chosen)}
    if controls.drafter == "typed" and not controls.typed:
        raise DraftscopeError("The typed draft is empty; write how you think the text goes on.")
    return (
        checked("plain", common | {"drafter": "plain"}),
        checked(LANE, common | {"drafter": controls.drafter} | own),
    )


def is_read(name: str, uses: Collection[str], chosen: Mapping[str, Any]) -> bool:
    """Whether a drafter that `uses` these settings reads that one, with the values of `READ_WITH` as `chosen`."""
    if name not in READ_WITH:
        return name in uses
    other, values = READ_WITH[name]
    return other in uses and chosen[other] in values


def checked(lane: str, values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    Settings.of(**values)
    return lane, values


def _own(name: str, controls: Controls) -> Any:
    value = getattr(controls, name)
    if name == "shape":
        return shape_of(value)
    if name == "arms":
        return arms_of(value)
    if name == "exit_layer":
        return _whole(name, value) if str(value or "").strip() else None
    return _whole(name, value) if name in WHOLE else value


def shape_of(text: str) -> tuple[int, ...]:
    """'3, 2, 1' -> (3, 2, 1)."""
    try:
        return tuple(int(part) for part in str(text).replace("x", ",").replace("×", ",").split(",") if part.strip())
    except ValueError:
        raise DraftscopeError(f"shape = {text!r}: write the children per level, such as 3, 2, 1.") from None


def arms_of(text: str) -> tuple[str, ...]:
    """'draft:2, ngram' -> ('draft:2', 'ngram')."""
    return tuple(part.strip() for part in str(text).split(",") if part.strip())


def _whole(name: str, value: Any) -> int:
    try:
        number = float(value)
        if number != int(number):
            raise ValueError(name)
        return int(value) if isinstance(value, int) else int(number)
    except (TypeError, ValueError, OverflowError):
        raise DraftscopeError(f"{name} = {value!r}: a whole number is needed.") from None


def as_dict(controls: Controls) -> dict[str, Any]:
    return asdict(controls)
