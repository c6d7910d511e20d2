"""Published heads in and out: `load_head` reads what others train, `save_head` writes what others read.

| kind | as published by | reads | `save_head` writes |
|---|---|---|---|
| eagle | SafeAILab | EAGLE-1 and EAGLE-2, speculators' `eagle` | SafeAILab's |
| eagle3 | SafeAILab, speculators, vLLM, SGLang | with EAGLE 3.1's norms | SafeAILab's |
| medusa | FasterDecoding, speculators | heads of their own or shared | the former, or where shared the latter |
| mtp | speculators | one dense layer | speculators' |
| block, dflash | z-lab, speculators | layers without windows | z-lab's |
| speculators | speculators | whichever of these its config.json names | |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.models.heads.block import Block
from draftscope.models.heads.eagle import Eagle1, Eagle3
from draftscope.models.heads.formats import format_block, format_eagle, format_medusa, format_mtp
from draftscope.models.heads.formats.head_files import Checkpoint, Published, read, write
from draftscope.models.heads.head import Head, Lender
from draftscope.models.heads.medusa import Medusa
from draftscope.models.heads.mtp import Mtp

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Format:
    """`read` builds a head without weights and names the checkpoint's tensors as it does; `write` is the way back,
    for a target of that name."""

    head: type[Head]
    read: Callable[[Checkpoint, Lender], tuple[Head, Tensors]]
    write: Callable[[Any, str], Published]


FORMATS = {
    "eagle": Format(Eagle1, format_eagle.read_eagle1, format_eagle.write_eagle1),
    "eagle3": Format(Eagle3, format_eagle.read_eagle3, format_eagle.write_eagle3),
    "medusa": Format(Medusa, format_medusa.read_medusa, format_medusa.write_medusa),
    "mtp": Format(Mtp, format_mtp.read_mtp, format_mtp.write_mtp),
    "dflash": Format(Block, format_block.read_block, format_block.write_block),
}
KINDS = (*FORMATS, "block", "speculators")


def load_head(kind: str, source: str | Path, lender: Lender, revision: str | None = None) -> Head:
    """The head of that kind in a folder or on the hub, on the lender's device and in its dtype.

    DraftscopeError, in one sentence, for whatever does not fit: the kind, the files, the target, a variant.
    """
    if kind not in KINDS:
        raise DraftscopeError(f"There is no kind of head '{kind}'; known are {', '.join(KINDS)}.")
    found = read(source, revision)
    head, tensors = FORMATS[_kind(kind, found)].read(found, lender)
    _fill(head, tensors, found, lender)
    return head.eval()


def save_head(head: Head, folder: Path, target: str) -> None:
    """Writes the head as published heads are; `target` is the id or the name of the model it was trained on."""
    form = next(form for form in FORMATS.values() if type(head) is form.head)
    write(folder, form.write(head, target))


def kind_of(head: Head) -> str:
    """What drafters call a head: its kind, whatever its file said."""
    names = {Eagle1: "eagle", Eagle3: "eagle3", Medusa: "medusa", Mtp: "mtp", Block: "block"}
    return names[type(head)]


def _kind(kind: str, found: Checkpoint) -> str:
    """A speculators folder says what it is; it must agree with what was asked for."""
    asked = {"block": "dflash"}.get(kind, kind)
    said = found.config.get("speculators_model_type")
    if said is None:
        if asked == "speculators":
            raise found.wrong("has no 'speculators_model_type' in its config.json; say which kind of head it is.")
        return asked
    if said not in FORMATS:
        raise found.wrong(f"is a speculators head of the type '{said}'; known are {', '.join(FORMATS)}.")
    if asked not in ("speculators", said):
        raise found.wrong(f"is a head of the kind '{said}', not '{asked}'; load it as '{said}'.")
    return str(said)


def _fill(head: Head, tensors: Tensors, found: Checkpoint, lender: Lender) -> None:
    """Puts the tensors into the head; every one must have its place and its shape."""
    wanted = head.state_dict()
    if missing := sorted(wanted.keys() - tensors.keys()):
        raise found.wrong(f"lacks {len(missing)} weights, '{missing[0]}' for one; choose a complete checkpoint.")
    if surplus := sorted(tensors.keys() - wanted.keys()):
        raise found.wrong(
            f"has {len(surplus)} weights that a head of this kind has no place for, '{surplus[0]}' for one: a variant "
            "that is not known here; choose another head."
        )
    for name in sorted(wanted):
        if wanted[name].shape != tensors[name].shape:
            raise found.wrong(
                f"has a weight '{name}' of {_size(tensors[name])}, where its config.json and this target ask for "
                f"{_size(wanted[name])}; choose a head that was trained for this target."
            )
    place, dtype = lender.embedding.device, lender.embedding.dtype
    ready = {name: t.to(place, dtype if t.is_floating_point() else t.dtype) for name, t in tensors.items()}
    head.load_state_dict(ready, assign=True)


def _size(tensor: Tensor) -> str:
    return " x ".join(f"{size:,}" for size in tensor.shape)
