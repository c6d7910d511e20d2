"""Loads heads that others published and saves heads in formats that others read.

| kind | published by | supported | `save_head` writes |
|---|---|---|---|
| eagle | SafeAILab, speculators | EAGLE-1 and EAGLE-2, speculators' `eagle` | SafeAILab's format |
| eagle3 | SafeAILab, speculators, vLLM, SGLang | also EAGLE 3.1's norms | SafeAILab's format |
| medusa | FasterDecoding, speculators | own or shared output weights | FasterDecoding's, if shared speculators' |
| mtp | speculators | one dense layer | speculators' format |
| block, dflash | z-lab, speculators | layers without sliding windows | z-lab's format |
| dspark | speculators | the same, with a table of the token before | speculators' format |
| speculators | speculators | the kind that its config.json names | |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.models.heads.block import Block
from draftscope.models.heads.dspark import DSpark
from draftscope.models.heads.eagle import Eagle1, Eagle3
from draftscope.models.heads.formats import format_block, format_eagle, format_medusa, format_mtp
from draftscope.models.heads.formats.head_files import Checkpoint, Published, read, write
from draftscope.models.heads.head import Head, SharedWeights
from draftscope.models.heads.medusa import Medusa
from draftscope.models.heads.mtp import Mtp
from draftscope.models.native.linear import accelerate

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Format:
    """`read` returns a head without weights and the checkpoint's tensors under the head's names; `write` is the
    inverse, for a target with the given name."""

    head: type[Head]
    read: Callable[[Checkpoint, SharedWeights], tuple[Head, Tensors]]
    write: Callable[[Any, str], Published]


FORMATS = {
    "eagle": Format(Eagle1, format_eagle.read_eagle1, format_eagle.write_eagle1),
    "eagle3": Format(Eagle3, format_eagle.read_eagle3, format_eagle.write_eagle3),
    "medusa": Format(Medusa, format_medusa.read_medusa, format_medusa.write_medusa),
    "mtp": Format(Mtp, format_mtp.read_mtp, format_mtp.write_mtp),
    "dflash": Format(Block, format_block.read_block, format_block.write_block),
    "dspark": Format(DSpark, format_block.read_dspark, format_block.write_dspark),
}
KINDS = (*FORMATS, "block", "speculators")


def load_head(kind: str, source: str | Path, shared: SharedWeights, revision: str | None = None) -> Head:
    """The head of `kind` from a folder or the hub, on the target's device and in its dtype.

    Raises DraftscopeError for an unknown kind, unreadable files, a head of another target, or an unsupported variant.
    """
    if kind not in KINDS:
        raise DraftscopeError(f"There is no kind of head '{kind}'; choose from {', '.join(KINDS)}.")
    found = read(source, revision)
    head, tensors = FORMATS[_kind(kind, found)].read(found, shared)
    _fill(head, tensors, found, shared)
    accelerate(head)
    return head.eval()


def save_head(head: Head, folder: Path, target: str) -> None:
    """Writes the head in its published format; `target` is the id or name of the model it was trained for."""
    layout = next(layout for layout in FORMATS.values() if type(head) is layout.head)
    write(folder, layout.write(head, target))


def kind_of(head: Head) -> str:
    """The drafters' name for the kind of a head, whatever its file called it."""
    names = {Eagle1: "eagle", Eagle3: "eagle3", Medusa: "medusa", Mtp: "mtp", Block: "block", DSpark: "dspark"}
    return names[type(head)]


def _kind(kind: str, found: Checkpoint) -> str:
    """The format to read. A speculators folder names its kind, which must agree with the requested one."""
    requested = {"block": "dflash"}.get(kind, kind)
    actual = found.config.get("speculators_model_type")
    if actual is None:
        if requested == "speculators":
            raise found.wrong("has no 'speculators_model_type' in its config.json; say which kind of head it is.")
        return requested
    if actual not in FORMATS:
        raise found.wrong(f"is a speculators head of type '{actual}'; supported types are {', '.join(FORMATS)}.")
    if requested not in ("speculators", actual):
        raise found.wrong(f"is a head of kind '{actual}', not '{requested}'; load it as '{actual}'.")
    return str(actual)


def _fill(head: Head, tensors: Tensors, found: Checkpoint, shared: SharedWeights) -> None:
    """Assigns the tensors to the head's weights; names and shapes must match exactly."""
    expected = head.state_dict()
    if missing := sorted(expected.keys() - tensors.keys()):
        raise found.wrong(f"lacks {len(missing)} weights, for example '{missing[0]}'; choose a complete checkpoint.")
    if surplus := sorted(tensors.keys() - expected.keys()):
        raise found.wrong(
            f"has {len(surplus)} unexpected weights, for example '{surplus[0]}': a variant that is not supported; "
            "choose another head."
        )
    for name in sorted(expected):
        if expected[name].shape != tensors[name].shape:
            raise found.wrong(
                f"has a weight '{name}' of {_size(tensors[name])}, but its config.json and this target need "
                f"{_size(expected[name])}; choose a head that was trained for this target."
            )
    device, dtype = shared.embedding.device, shared.embedding.dtype
    converted = {name: t.to(device, dtype if t.is_floating_point() else t.dtype) for name, t in tensors.items()}
    head.load_state_dict(converted, assign=True)


def _size(tensor: Tensor) -> str:
    return " x ".join(f"{size:,}" for size in tensor.shape)
