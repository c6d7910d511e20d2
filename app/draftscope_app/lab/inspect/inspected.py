"""Which kind a head's files are of, and what is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev

import torch
from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.models import head_kinds
from draftscope.models.heads.eagle import Eagle3, default_layers
from draftscope.models.heads.formats import ANY, load_head
from draftscope.models.heads.head import Head, SharedWeights
from draftscope.models.heads.head_files import Checkpoint, Defect, read
from draftscope.models.heads.layer_ids import DFLASH, OUTPUTS, LayerIds, in_every_engine, layer_ids

COPIED = 0.01  # share of output rows that may equal the row before
SURE = 2.0  # standard errors by which one numbering of layers must be better than the other

Drafted = tuple[int, int]  # rounds with drafts in a text, and drafted tokens that were accepted


def kind_of_files(head: Checkpoint) -> str:
    """The kind of head, from its configuration. Raises `DraftscopeError` where it does not say."""
    config = head.config
    if named := config.get("speculators_model_type"):
        return str(named)
    architecture = str((config.get("architectures") or [""])[0])
    for kind in head_kinds.kinds().values():
        if any(mark in name for mark in kind.marks for name in (architecture, *config)):
            return kind.name
    if "fc.weight" in head.tensors and "d2t" in head.tensors:
        return head_kinds.EAGLE3.name
    raise head.wrong("does not say which kind of head it is; write KIND:MODEL, such as eagle3:FOLDER.")


def inspect(kind: str, source: str | Path, shared: SharedWeights) -> list[Defect]:
    """Everything found; empty where nothing is wrong. Raises `DraftscopeError` for unreadable files."""
    head = read(source)
    checks = () if kind == ANY else head_kinds.find(kind).network().checks
    defects = [defect for check in (*checks, _values) for defect in check(head, shared)]
    if not defects:
        try:
            load_head(kind, source, shared)
        except DraftscopeError as error:
            defects.append(Defect("refused", str(error), ("here",)))
    return defects


def stated_ids(kind: str, source: str | Path, shared: SharedWeights) -> LayerIds | None:
    """The layer ids of an EAGLE-3 head that can number two things; None where there are none, and where they are the
    default."""
    head = read(source)
    fuses = head.optional("eagle_config").get("use_aux_hidden_state") is not False
    ids = layer_ids(head, shared) if kind == head_kinds.EAGLE3.name and fuses else None
    return None if ids is None or ids.other is None or ids.layers == default_layers(shared.layers) else ids


def read_in_the_other(head: Head, ids: LayerIds) -> None:
    """From now on the head reads the layers of the other numbering."""
    assert isinstance(head, Eagle3) and ids.other is not None
    head.read_layers(ids.other)


def tokens_a_round(texts: Sequence[Drafted]) -> float:
    return 1 + sum(accepted for _, accepted in texts) / max(sum(drafts for drafts, _ in texts), 1)


def misread(defects: list[Defect], ids: LayerIds, here: Sequence[Drafted], other: Sequence[Drafted]) -> list[Defect]:
    """The defects of a head that drafted `here`, and `other` in the other numbering of its layers: where that is surely
    better, it is what the head was trained with, and engines that read it otherwise are wrong."""
    if ids.other is None or _gain(here, other) < SURE:
        return defects
    wrong = ("here",) if ids.key == DFLASH else ("SGLang", "here")
    mistake = Defect(
        "layer ids in the other numbering",
        f"'{ids.key}' {list(ids.stated)} are read as {ids.numbering} of layers, and it drafts better if they are "
        f"{ids.other_numbering}; write {in_every_engine(ids.other)}",
        wrong if ids.numbering == OUTPUTS else ("vLLM", "llama.cpp", "here"),
        drafts=True,
    )
    return [mistake]


def compared(ids: LayerIds, here: Sequence[Drafted], other: Sequence[Drafted]) -> str:
    """A sentence with the tokens a round in both numberings."""
    gain = _gain(here, other)
    surely = "which differ by chance" if abs(gain) < SURE else "a difference beyond chance"
    return (
        f"'{ids.key}' {list(ids.stated)}: {tokens_a_round(here):.2f} tokens a round as {ids.numbering} of layers, as "
        f"they are read here, and {tokens_a_round(other):.2f} as {ids.other_numbering}, {surely} ({len(here)} texts)."
    )


def _gain(before: Sequence[Drafted], after: Sequence[Drafted]) -> float:
    """The mean over texts of the tokens a round that were gained, in its standard errors."""
    pairs = zip(before, after, strict=True)
    gains = [tokens_a_round([text]) - tokens_a_round([same]) for same, text in pairs]
    error = stdev(gains) / math.sqrt(len(gains))
    return mean(gains) / error if error else 0.0


def _values(head: Checkpoint, shared: SharedWeights) -> Iterator[Defect]:
    del shared
    for name, tensor in head.tensors.items():
        if not tensor.is_floating_point():
            if tensor.dtype in (torch.int8, torch.uint8) and tensor.dim() > 1:
                yield Defect("type", f"'{name}' is {tensor.dtype}: quantised, and no engine reads a head so")
            continue
        values = tensor.float()
        if not bool(values.isfinite().all()):
            yield Defect("not finite", f"'{name}' holds NaN or infinity: every draft is then the same token")
        elif values.numel() > 1 and bool((values == values.flatten()[0]).all()):
            yield Defect("never trained", f"'{name}': every entry is {float(values.flatten()[0]):g}")
        elif tensor.dim() == 2 and (copies := _copied(values)):
            yield Defect("copied rows", f"'{name}': {copies:,} of its {len(tensor):,} rows equal the row before")


def _copied(values: Tensor) -> int:
    """Rows that equal the row before, if they are more than chance and padding give."""
    copies = int((values[1:] == values[:-1]).all(-1).sum())
    return copies if copies > COPIED * len(values) else 0
