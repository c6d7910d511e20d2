"""What every decoding run has, whoever drafts: names, ranges, and one sentence for a value that is out of range."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

MAX_NODES = 256  # drafted nodes in one round; more than any published tree, and still one forward

TreeShape = tuple[int, ...]  # children of every node, level by level

LOSSY = ("typical", "lenient", "top-k")  # rules whose output is not the target's distribution


class GeneralSettings(BaseModel):
    """The settings of a run that do not depend on its drafter. Frozen; unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    drafter: str = Field("draft", description="name of the drafter; 'draftscope drafters' lists them")
    temperature: float = Field(0.0, ge=0.0, le=10.0, description="0 is greedy")
    top_k: int = Field(0, ge=0, description="0 keeps every token")
    top_p: float = Field(
        1.0, gt=0.0, le=1.0, description="smallest set of tokens with this probability; 1 keeps every token"
    )
    min_p: float = Field(
        0.0, ge=0.0, lt=1.0, description="least probability of a token, relative to the most likely token's"
    )
    seed: int = Field(0, ge=0, lt=2**63, description="seed of every random draw")
    max_new_tokens: int = Field(128, ge=1, le=1_000_000, description="most tokens to write")
    raw: bool = Field(False, description="continue the prompt as it stands, without the model's chat template")
    system: str = Field("", max_length=20_000, description="system message of a chat")
    thinking: bool = Field(False, description="let a chat model think first, where its template can")
    stop: tuple[str, ...] = Field((), max_length=16, description="strings that end the text")

    @field_validator("stop")
    @classmethod
    def _no_empty_stop(cls, stop: tuple[str, ...]) -> tuple[str, ...]:
        if any(not s for s in stop):
            raise ValueError("holds an empty string, which would end every text at once; leave it out")
        return stop


def nodes_in(shape: TreeShape) -> int:
    """Nodes of the full tree in which every node of level d has `shape[d]` children."""
    total, level = 0, 1
    for branches in shape:
        level *= branches
        total += level
    return total


def sentence(error: ValidationError, known: Iterable[str]) -> str:
    """The first problem of a validation error in one sentence: setting, value, remedy. `known` are all settings."""
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else "settings"
    if first["type"] == "extra_forbidden":
        return unknown(name, known)
    given = repr(first["input"])
    remedy = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{name} = {given[:80]}: {remedy}."


def unknown(name: str, known: Iterable[str]) -> str:
    """One sentence for a setting that does not exist."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean '{near[0]}'? Known" if near else "known"
    return f"There is no setting '{name}'; {hint} are {', '.join(names)}."
