"""The kinds of trained heads. One entry a kind, from which every list of them is read; imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pkgutil import resolve_name
from typing import Any

from draftscope.base.errors import DraftscopeError


@dataclass(frozen=True)
class Rates:
    """Peak learning rates."""

    matrices: float
    rest: float


@dataclass(frozen=True)
class HeadNetwork:
    """What a kind of head computes, of the types in `draftscope.models.heads`.

    `head` is a class of `Head`. `read(checkpoint, shared)` returns a head without weights and the checkpoint's tensors
    under the head's names; `write(head, target)` is the inverse, for a target with the given name. For training,
    `first(shape, shared, tokens)` makes a head from a shape of its target's width, the target's weights and the tokens
    that are used most, and `lesson(target, head)` is a `Distillation`. `checks` yield what is wrong with its files.
    """

    head: type[Any]
    read: Callable[[Any, Any], tuple[Any, dict[str, Any]]]
    write: Callable[[Any, str], Any]
    first: Callable[[Any, Any, Any], Any]
    lesson: Callable[[Any, Any], Any]
    checks: tuple[Callable[[Any, Any], Any], ...] = ()


@dataclass(frozen=True, eq=False)
class HeadKind:
    """A kind of head: `name` is what drafters and `--head KIND:MODEL` call it.

    `network` gives what it computes, how its files are read and how it learns. `published_as` is its type in a
    speculators config.json, if that is another name. `names` are those of other programs for it, by `Program.kind`;
    `in_target`: they read its weights from the target's checkpoint. `marks` are parts of the names, of an architecture
    or a key in config.json, by which files of this kind are known. `method` is what a model card says of one that was
    trained for any target, with '{depths}' for the tokens that it drafts; empty for a kind that is not trained so.
    """

    name: str
    network: Callable[[], HeadNetwork]
    published_as: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    in_target: bool = False
    marks: tuple[str, ...] = ()
    method: str = ""
    rates: Rates = Rates(4e-3, 2e-3)

    @property
    def format(self) -> str:
        """Its name in a speculators folder."""
        return self.published_as or self.name


def _network(name: str) -> Callable[[], HeadNetwork]:
    return partial(resolve_name, f"draftscope.models.heads.networks:{name}")


KINDS = (
    HeadKind(
        "eagle3",
        _network("EAGLE3"),
        names={"vllm": "eagle3", "sglang": "EAGLE3", "llama.cpp": "draft-eagle3", "tensorrt-llm": "Eagle3"},
        marks=("Eagle3", "EAGLE3"),
        method="""
An EAGLE-3 head (2503.01840): one layer that reads low, middle and high hidden states of the target, each
normalised before they are fused (EAGLE 3.1), and then its own features. Trained on its own features for
up to {depths} steps (training-time test).""",
    ),
    HeadKind("eagle", _network("EAGLE"), names={"vllm": "eagle", "sglang": "EAGLE"}, marks=("Eagle",)),
    HeadKind(
        "mtp",
        _network("MTP"),
        names={"vllm": "mtp", "sglang": "NEXTN", "llama.cpp": "draft-mtp", "tensorrt-llm": "MTP"},
        in_target=True,
        method="""
A multi-token prediction head as in DeepSeek-V3 (2412.19437), trained after the target; applied repeatedly to
draft a chain. Trained on its own features for up to {depths} steps.""",
    ),
    HeadKind(
        "medusa",
        _network("MEDUSA"),
        names={"vllm": "medusa"},
        marks=("medusa_num_heads",),
        method="""
{depths} Medusa heads (2401.10774): each is a residual block before the target's own output weights.""",
    ),
    HeadKind(
        "block",
        _network("BLOCK"),
        published_as="dflash",
        marks=("DFlash",),
        method="""
A block drafter in the style of DFlash (2602.06036): {depths} tokens in one forward of one layer.""",
    ),
    HeadKind(
        "dspark",
        _network("DSPARK"),
        names={"vllm": "dspark"},
        method="""
A block drafter with a table of the token before, in the style of DSpark (2607.05147): {depths} tokens in one
forward of one layer, then drawn one after the other. It has no estimate of what will be accepted.""",
    ),
)
SMALL_MODEL = "draft"  # what is trained for a target instead of a head: a small model
EAGLE3, EAGLE, MTP, MEDUSA, BLOCK, DSPARK = KINDS

_registered: dict[str, HeadKind] = {}


def register_kind(kind: HeadKind) -> None:
    """Adds the kind of a drafter from elsewhere for this process. Raises `DraftscopeError` for a built-in name."""
    if any(kind is not built_in and {kind.name, kind.format} & {built_in.name, built_in.format} for built_in in KINDS):
        raise DraftscopeError(f"The kind of head '{kind.name}' has the name of a built-in one; give it another name.")
    if kind not in KINDS:
        _registered[kind.name] = kind


def kinds() -> Mapping[str, HeadKind]:
    """Every kind by name: those that are here, and those that were given."""
    return {kind.name: kind for kind in KINDS} | _registered


def find(name: str) -> HeadKind:
    """The kind with this name, its own or its format's. Raises `DraftscopeError` with those that there are."""
    for kind in kinds().values():
        if name in (kind.name, kind.format):
            return kind
    names = dict.fromkeys(name for kind in kinds().values() for name in (kind.name, kind.format))
    raise DraftscopeError(f"There is no kind of head '{name}'; choose from {', '.join(names)}, speculators.")
