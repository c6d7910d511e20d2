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

from pathlib import Path

from torch import Tensor

from draftscope.models import head_kinds
from draftscope.models.files.finite import not_finite
from draftscope.models.heads.head import Head, SharedWeights
from draftscope.models.heads.head_files import Checkpoint, read, write
from draftscope.models.native.linear import accelerate

Tensors = dict[str, Tensor]
ANY = "speculators"  # the kind of a folder that says itself which kind it is


def load_head(kind: str, source: str | Path, shared: SharedWeights) -> Head:
    """The head of `kind` from a folder or the hub, on the target's device and in its dtype.

    Raises DraftscopeError for an unknown kind, unreadable files, a head of another target, or an unsupported variant.
    """
    wanted = ANY if kind == ANY else head_kinds.find(kind).format
    saved = read(source)
    head: Head
    head, tensors = head_kinds.find(_format(wanted, saved)).network().read(saved, shared)
    _fill(head, tensors, saved, shared)
    accelerate(head)
    return head.eval()


def save_head(head: Head, folder: Path, target: str) -> None:
    """Writes the head in its published format; `target` is the id or name of the model it was trained for."""
    write(folder, head_kinds.find(kind_of(head)).network().write(head, target))


def kind_of(head: Head) -> str:
    """The drafters' name for the kind of a head, whatever its file called it."""
    return next(kind.name for kind in head_kinds.kinds().values() if type(head) is kind.network().head)


def _format(wanted: str, saved: Checkpoint) -> str:
    """The format to read. A speculators folder names it, and that must agree with the wanted one."""
    actual = saved.config.get("speculators_model_type")
    if actual is None:
        if wanted == ANY:
            raise saved.wrong("has no 'speculators_model_type' in its config.json; say which kind of head it is.")
        return wanted
    formats = [kind.format for kind in head_kinds.kinds().values()]
    if actual not in formats:
        raise saved.wrong(f"is a speculators head of type '{actual}'; supported types are {', '.join(formats)}.")
    if wanted not in (ANY, actual):
        raise saved.wrong(f"is a head of kind '{actual}', not '{wanted}'; load it as '{actual}'.")
    return str(actual)


def _fill(head: Head, tensors: Tensors, saved: Checkpoint, shared: SharedWeights) -> None:
    """Assigns the tensors to the head's weights; names and shapes must match exactly."""
    expected = head.state_dict()
    if missing := sorted(expected.keys() - tensors.keys()):
        raise saved.wrong(f"lacks {len(missing)} weights, for example '{missing[0]}'; choose a complete checkpoint.")
    if surplus := sorted(tensors.keys() - expected.keys()):
        raise saved.wrong(
            f"has {len(surplus)} unexpected weights, for example '{surplus[0]}': a variant that is not supported; "
            "choose another head."
        )
    for name in sorted(expected):
        if expected[name].shape != tensors[name].shape:
            raise saved.wrong(
                f"has a weight '{name}' of {_size(tensors[name])}, but its config.json and this target need "
                f"{_size(expected[name])}; choose a head that was trained for this target."
            )
    device, dtype = shared.device, shared.dtype
    converted = {name: t.to(device, dtype if t.is_floating_point() else t.dtype) for name, t in tensors.items()}
    if broken := not_finite(converted.items()):
        raise saved.wrong(broken)
    head.load_state_dict(converted, assign=True)


def _size(tensor: Tensor) -> str:
    return " x ".join(f"{size:,}" for size in tensor.shape)
