"""Medusa as FasterDecoding and speculators publish it; in speculators heads may share the target's output weights.

FasterDecoding: `medusa_lm_head` with `{head}.{block}.linear.*` and, after the blocks, `{head}.{blocks}.weight`. Heads
and blocks are counted in the weights, because some uploaded configurations name too few. Speculators:
`blocks.{head}.layers.{block}.*` and `lm_heads.{head}.weight`.
"""

from __future__ import annotations

import re

from torch import Tensor

from draftscope.models.heads.formats.head_files import Checkpoint, Published
from draftscope.models.heads.formats.published import built, same_hidden, speculators_config
from draftscope.models.heads.head import SharedWeights
from draftscope.models.heads.medusa import Medusa, MedusaConfig

BLOCK, OUTPUT = re.compile(r"^(\d+)\.(\d+)\.linear\."), re.compile(r"^(\d+)\.\d+\.weight$")
LAYER = re.compile(r"^(blocks\.\d+\.)layers\.")


def read_medusa(saved: Checkpoint, shared: SharedWeights) -> tuple[Medusa, dict[str, Tensor]]:
    if "speculators_model_type" in saved.config:
        return _read_speculators(saved, shared)
    blocks = [match for name in saved.tensors if (match := BLOCK.match(name))]
    if not blocks:
        raise saved.wrong("has no Medusa heads in its weights; choose a folder with a medusa_lm_head file.")
    tensors = {OUTPUT.sub(r"lm_heads.\1.weight", BLOCK.sub(r"blocks.\1.\2.", n)): t for n, t in saved.tensors.items()}
    config = MedusaConfig(
        heads=1 + max(int(match[1]) for match in blocks),
        blocks=1 + max(int(match[2]) for match in blocks),
        bias="blocks.0.0.bias" in tensors,
    )
    return built(Medusa, config, shared), tensors


def _read_speculators(saved: Checkpoint, shared: SharedWeights) -> tuple[Medusa, dict[str, Tensor]]:
    same_hidden(saved, saved.number("medusa_hidden_size"), shared)
    if saved.config.get("truncated_vocab_size"):
        raise saved.wrong(
            "drafts only a part of the vocabulary ('truncated_vocab_size'), which is not supported for Medusa; choose "
            "another head."
        )
    heads, blocks = saved.number("num_heads"), saved.number("num_hidden_layers")
    one_output, bias = (bool(saved.config.get(key)) for key in ("original_lm_head", "medusa_fc_bias"))
    tensors = {LAYER.sub(r"\1", name): tensor for name, tensor in saved.tensors.items()}
    return built(Medusa, MedusaConfig(heads, blocks, one_output, bias), shared), tensors


def write_medusa(head: Medusa, target: str) -> Published:
    """FasterDecoding's format or, if heads share the target's output weights, speculators', which alone supports it."""
    return _speculators(head, target) if head.config.shared else _fasterdecoding(head, target)


def _fasterdecoding(head: Medusa, target: str) -> Published:
    blocks, state = head.config.blocks, head.state_dict()
    names = {name: re.sub(r"^blocks\.(\d+)\.(\d+)\.", r"\1.\2.linear.", name) for name in state}
    tensors = {re.sub(r"^lm_heads\.(\d+)\.", rf"\1.{blocks}.", names[name]): state[name] for name in state}
    config = {"medusa_num_heads": head.config.heads, "medusa_num_layers": blocks, "base_model_name_or_path": target}
    return Published(config, tensors, "medusa_lm_head")


def _speculators(head: Medusa, target: str) -> Published:
    ours = head.config
    config = speculators_config("medusa", ours.heads, target) | {
        "architectures": ["MedusaModel"],
        "num_heads": ours.heads,
        "num_hidden_layers": ours.blocks,
        "medusa_hidden_size": head.shared.hidden,
        "medusa_vocab_size": head.shared.vocabulary,
        "truncated_vocab_size": 0,
        "original_lm_head": True,
        "medusa_fc_bias": ours.bias,
    }
    return Published(config, {re.sub(r"^(blocks\.\d+\.)", r"\1layers.", n): t for n, t in head.state_dict().items()})
