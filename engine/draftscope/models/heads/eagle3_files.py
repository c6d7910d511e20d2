"""What can be wrong with the files of an EAGLE-3 head, and what each engine makes of it.

Most servers answer with status 200 whatever a head's files lack: what is not read stays as it was created, at random,
and every draft is refused. What the engines read is written down from vLLM 0.33, SGLang 0.5.23, llama.cpp of 2026-10.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from draftscope.models.heads.eagle import NAMES, default_layers
from draftscope.models.heads.head import SharedWeights
from draftscope.models.heads.head_files import ALL, Checkpoint, Defect
from draftscope.models.heads.layer_ids import AUX, DFLASH, OUTPUTS, in_every_engine, layer_ids
from draftscope.models.heads.published import renamed

NEEDED = (  # of EAGLE-3, besides the embedding and the output weights
    *(f"midlayer.self_attn.{name}_proj.weight" for name in "qkvo"),
    *(f"midlayer.mlp.{name}_proj.weight" for name in ("gate", "up", "down")),
    *(f"midlayer.{name}.weight" for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm")),
    "fc.weight", "norm.weight",
)  # fmt: skip
OPTIONAL = ("lm_head.", "embed_tokens.", "fc_norm.", "d2t", ".bias", "q_norm.", "k_norm.", "input_norm.", "enorm.")


def _names(head: Checkpoint, shared: SharedWeights) -> Iterator[Defect]:
    tensors = renamed(head.tensors, *NAMES)
    for name in NEEDED:
        if name not in tensors and not (name == "fc.weight" and _reads_one_state(head)):
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


def _reads_one_state(head: Checkpoint) -> bool:
    return head.optional("eagle_config").get("use_aux_hidden_state") is False


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
    ids = layer_ids(head, shared)
    if ids is None or _reads_one_state(head):
        return
    usual, nested = list(default_layers(shared.layers)), head.optional("eagle_config").get(AUX)
    if wrong := [layer for layer in ids.layers if not 0 <= layer <= shared.layers]:
        yield Defect(
            "layers that are not there", f"it reads the inputs of layers {wrong}; the target has {shared.layers}"
        )
    if ids.key == AUX and list(ids.layers) != usual and nested is None:
        yield Defect(
            "layer ids that SGLang does not read",
            f"'{AUX}' {list(ids.stated)} stands beside 'eagle_config': SGLang reads {usual} instead; leave the key out "
            "and train on these",
            ("SGLang",),
            drafts=True,
        )
    elif ids.key == AUX and nested and list(nested) != [layer - 1 for layer in ids.layers]:
        yield Defect(
            "layer ids disagree", f"'{AUX}' {list(ids.stated)} are inputs of layers and 'eagle_config.{AUX}' {nested} "
            "other layers' outputs; SGLang reads these, the others those", ("SGLang",), drafts=True,
        )  # fmt: skip
    elif ids.key == DFLASH and list(ids.layers) != usual:
        yield Defect(
            "layer ids that servers do not read",
            f"'{DFLASH}' {list(ids.stated)} are read here as outputs of layers, as DeepSpec writes them; servers read "
            f"{usual} instead; write {in_every_engine(ids.layers)}",
            ("vLLM", "SGLang", "llama.cpp"),
            drafts=True,
        )
    elif ids.key not in (AUX, DFLASH) and ids.numbering == OUTPUTS:
        yield Defect(
            "layer ids off by one",
            f"'{ids.key}' {list(ids.stated)} are outputs of layers in SGLang and here (inputs {list(ids.layers)}), "
            f"inputs in vLLM (sglang#23838); write {in_every_engine(ids.layers)}",
            ("vLLM", "llama.cpp"),
            drafts=True,
        )


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


CHECKS = (_names, _vocabulary, _layer_ids, _configuration)
