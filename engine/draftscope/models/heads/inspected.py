"""What is wrong with a head's files, and what each engine makes of it.

Most servers answer with status 200 whatever a head's files lack: what is not read stays as it was created, at random,
and every draft is refused. What the engines read is written down from vLLM 0.33, SGLang 0.5.23, llama.cpp of 2026-10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.models.heads.eagle import AUX, NAMES, default_layers
from draftscope.models.heads.formats import load_head
from draftscope.models.heads.head import SharedWeights
from draftscope.models.heads.head_files import Checkpoint, read
from draftscope.models.heads.published import renamed

ALL = ("vLLM", "SGLang", "llama.cpp", "here")
NEEDED = (  # of EAGLE-3, besides the embedding and the output weights
    *(f"midlayer.self_attn.{name}_proj.weight" for name in "qkvo"),
    *(f"midlayer.mlp.{name}_proj.weight" for name in ("gate", "up", "down")),
    *(f"midlayer.{name}.weight" for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm")),
    "fc.weight", "norm.weight",
)  # fmt: skip
OPTIONAL = ("lm_head.", "embed_tokens.", "fc_norm.", "d2t", ".bias", "q_norm.", "k_norm.", "input_norm.", "enorm.")
COPIED = 0.01  # share of output rows that may equal the row before


@dataclass(frozen=True)
class Defect:
    """`name` of a kind of defect, the sentence, and the engines that serve it wrongly."""

    name: str
    sentence: str
    served_wrongly: tuple[str, ...] = ALL


def kind_of_files(head: Checkpoint) -> str:
    """The kind of head, from its configuration. Raises `DraftscopeError` where it does not say."""
    config = head.config
    if kind := config.get("speculators_model_type"):
        return str(kind)
    architecture = str((config.get("architectures") or [""])[0])
    for mark, kind in (("Eagle3", "eagle3"), ("EAGLE3", "eagle3"), ("Eagle", "eagle"), ("DFlash", "block")):
        if mark in architecture:
            return kind
    if "medusa_num_heads" in config:
        return "medusa"
    if "fc.weight" in head.tensors and "d2t" in head.tensors:
        return "eagle3"
    raise head.wrong("does not say which kind of head it is; write KIND:MODEL, such as eagle3:FOLDER.")


def inspect(kind: str, source: str | Path, shared: SharedWeights) -> list[Defect]:
    """Everything found; empty where nothing is wrong. Raises `DraftscopeError` for unreadable files."""
    head = read(source)
    checks: tuple[Callable[[Checkpoint, SharedWeights], Iterator[Defect]], ...] = (_values,)
    if kind == "eagle3":
        checks = (_eagle3_names, _vocabulary, _layer_ids, _configuration, *checks)
    defects = [defect for check in checks for defect in check(head, shared)]
    if not defects:
        try:
            load_head(kind, source, shared)
        except DraftscopeError as error:
            defects.append(Defect("refused", str(error), ("here",)))
    return defects


def _eagle3_names(head: Checkpoint, shared: SharedWeights) -> Iterator[Defect]:
    tensors = renamed(head.tensors, *NAMES)
    for name in NEEDED:
        if name not in tensors:
            yield Defect(
                "missing tensor", f"'{name}' is missing: it stays random in SGLang, the others refuse the head"
            )
    unread = [name for name in tensors if name not in NEEDED and not any(part in name for part in OPTIONAL)]
    for name in unread:
        yield Defect("unread tensor", f"nobody loads '{name}'; SGLang and vLLM skip it without a word")
    drafted = head.config.get("draft_vocab_size")
    if "lm_head.weight" not in tensors and drafted is not None:
        yield Defect(
            "no output weights",
            f"'draft_vocab_size' is {drafted} and there is no 'lm_head.weight': SGLang creates one and never fills it "
            "(sglang#27908)",
            ("SGLang",) if drafted == shared.vocabulary else ALL,
        )


def _vocabulary(head: Checkpoint, shared: SharedWeights) -> Iterator[Defect]:
    drafted, offsets = head.config.get("draft_vocab_size"), head.tensors.get("d2t")
    if offsets is None:
        if drafted not in (None, shared.vocabulary):
            yield Defect("no vocabulary map", f"{drafted} tokens are drafted and 'd2t' does not say which", ALL)
        return
    offsets = offsets.long().flatten()
    tokens = torch.arange(len(offsets)) + offsets
    outside = int(((tokens < 0) | (tokens >= shared.vocabulary)).sum())
    same = len(tokens) - len(set(tokens.tolist()))
    if (outside or same) and len(set(offsets.tolist())) == len(offsets) and bool((offsets.diff() > 0).all()):
        yield Defect("ids instead of offsets", "'d2t' holds token ids; engines add them to the row's number")
    elif outside:
        yield Defect("map out of range", f"'d2t' points at {outside} tokens that the target does not have")
    elif same:
        yield Defect("map repeats", f"'d2t' names {same} tokens twice; llama.cpp refuses the head")
    marked = head.tensors.get("t2d")
    if marked is not None and not (outside or same):
        expected = torch.zeros(shared.vocabulary, dtype=torch.bool).index_fill_(0, tokens, True)
        if marked.shape != expected.shape or not torch.equal(marked.bool(), expected):
            yield Defect("maps disagree", "'t2d' marks other tokens than 'd2t' names", ("SGLang", "here"))


def _layer_ids(head: Checkpoint, shared: SharedWeights) -> Iterator[Defect]:
    top, nested = head.config.get(AUX), (head.config.get("eagle_config") or {}).get(AUX)
    usual = list(default_layers(shared.layers))
    if top and list(top) != usual and nested is None:
        yield Defect(
            "layer ids that SGLang does not read",
            f"'{AUX}' {top} stands beside 'eagle_config': SGLang reads {usual} instead; leave the key out and train on "
            "these",
            ("SGLang",),
        )
    if nested:
        plus = [layer + 1 for layer in nested]
        agrees = top is not None and list(top) == plus
        if not agrees:
            yield Defect(
                "layer ids off by one",
                f"'eagle_config.{AUX}' {nested} are outputs of layers in SGLang and here (inputs {plus}), inputs in "
                "vLLM (sglang#23838)",
                ("vLLM", "llama.cpp"),
            )
    read_here = [*(top or [layer + 1 for layer in nested or []])]
    if wrong := [layer for layer in read_here if not 0 <= layer <= shared.layers]:
        sentence = f"it reads the inputs of layers {wrong}; the target has {shared.layers}"
        yield Defect("layers that are not there", sentence)


def _configuration(head: Checkpoint, shared: SharedWeights) -> Iterator[Defect]:
    speculators = "speculators_model_type" in head.config
    layer = (head.config.get("transformer_layer_config") or {}) if speculators else head.config
    if (depth := layer.get("num_hidden_layers", 1)) != 1:
        yield Defect(
            "depth", f"its config.json says {depth} layers and its weights have one; the others stay random", ALL
        )
    if speculators and "norm_before_residual" not in head.config:
        sentence = "vLLM takes True where it is missing, and the library that wrote it False"
        yield Defect("no norm_before_residual", sentence)
    if layer.get("tie_word_embeddings") and "lm_head.weight" in head.tensors:
        yield Defect(
            "tied", "'tie_word_embeddings' is true: its own 'lm_head.weight' is replaced by the embedding",
            ("vLLM", "SGLang"),
        )  # fmt: skip
    hidden = head.config.get("target_hidden_size") or layer.get("hidden_size")
    if hidden != shared.hidden:
        sentence = f"it was trained for hidden states of {hidden}, this target's have {shared.hidden}"
        yield Defect("another target", sentence)


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
