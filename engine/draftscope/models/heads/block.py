"""DFlash (2602.06036) and DSpark (2607.05147): draft a whole block of tokens in one forward.

The block is the last committed token followed by mask tokens. In every layer its rows attend to each other, in both
directions, and to keys and values computed from the target's fused features of the text before it, which stay in the
cache. Row k's logits are about token k of the block itself. DSpark adds a bias that depends on the token drafted before
it, by a low-rank table: its tokens are drawn one after the other, at the cost of two small products each.

Files are those of z-lab (DFlash) and speculators (also DSpark): `fc`, `hidden_norm`, `layers.*`, `norm`, DSpark's also
`markov_head.*`. z-lab's `target_layer_ids` number the outputs of layers; speculators' `aux_hidden_state_layer_ids`
number the inputs, as this engine does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from draftscope.models.cache.slots import SlotCache
from draftscope.models.heads.head import SHARES_ALL, Head, OwnWeights, SharedWeights
from draftscope.models.heads.head_files import Checkpoint, Published
from draftscope.models.heads.layer import DecoderLayer, HeadShape, Rotary
from draftscope.models.heads.published import (
    built,
    layer_config,
    marks,
    renamed,
    same_hidden,
    selected,
    shape_of,
    speculators_config,
    within,
)
from draftscope.models.native.linear import linear

UNSUPPORTED = ("input_embedding_scale", "output_multiplier", "final_logit_softcapping", "causal", "use_swa")


@dataclass(frozen=True)
class BlockConfig:
    """`depth` layers over blocks of `size` tokens, the first one given; `layers` are the fused hidden states."""

    shape: HeadShape
    depth: int
    size: int
    mask_token: int
    layers: tuple[int, ...]
    own_weights: OwnWeights = SHARES_ALL


class Block(Head):
    """Drafts up to `config.size` - 1 tokens. Here a feature is not paired with the next token."""

    def __init__(self, config: BlockConfig, shared: SharedWeights) -> None:
        super().__init__(shared, config.own_weights, config.shape.hidden, config.layers, config.depth)
        self.config = config
        self.max_draft = config.size - 1
        shape = config.shape
        self.fc = nn.Linear(len(config.layers) * shared.hidden, shape.hidden, bias=False)
        self.hidden_norm = nn.RMSNorm(shape.hidden, shape.eps)
        self.stack = nn.ModuleList(DecoderLayer(shape, causal=False) for _ in range(config.depth))
        self.norm = nn.RMSNorm(shape.hidden, shape.eps)
        self._rotary = Rotary(shape)

    def fuse(self, states: Tensor) -> Tensor:
        """The target's hidden states [B, C, len(layers) x H] -> context rows [B, C, hidden] for `forward`."""
        return self.hidden_norm(self.fc(states))  # type: ignore[no-any-return]

    def tokens(self, last: Tensor, count: int) -> Tensor:
        """The block [B, 1 + count] that drafts `count` tokens: `last` [B], then mask tokens."""
        masks = last.new_full((len(last), count), self.config.mask_token)
        return torch.cat([last[:, None], masks], 1)

    def forward(
        self,
        tokens: Tensor,
        context: Tensor,
        position_ids: Tensor,
        mask: Tensor | None = None,
        cache: SlotCache | None = None,
    ) -> Tensor:
        """The block's hidden states [B, N, hidden], for `project`; those of the first token, which is given, predict
        nothing.

        tokens [B, N]. context [B, C, hidden]: fused features that are not in the cache yet; without a cache those of
        the whole text. position_ids [B, C + N]: the context's, then the block's. `cache` is ready to write these C + N
        rows; the caller keeps the first C. `mask` [B, 1, N, columns] bool: what each row of the block attends to, in
        the cache's view or in the C + N rows. None attends to everything, for sequences of equal length.
        """
        rows = self.embed(tokens).to(context.dtype)
        angles = self._rotary(position_ids, context.dtype)
        stores = [None] * self.depth if cache is None else cache.layers
        for layer, store in zip(self.stack, stores, strict=True):
            rows = layer(rows, angles, mask, store, context)
        return self.norm(rows)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class DSparkConfig(BlockConfig):
    """`rank`: the width of the table."""

    rank: int = 256


class MarkovHead(nn.Module):
    """The table: a row of `rank` numbers for each of the target's tokens, and one for each token that is drafted.

    Modules have the published names. It adds nothing at first.
    """

    def __init__(self, read: int, drafted: int, rank: int) -> None:
        super().__init__()
        self.markov_w1 = nn.Embedding(read, rank)
        self.markov_w2 = nn.Linear(rank, drafted, bias=False)
        nn.init.zeros_(self.markov_w2.weight)


class DSpark(Block):
    """Drafts up to `config.size` - 1 tokens."""

    def __init__(self, config: DSparkConfig, shared: SharedWeights) -> None:
        super().__init__(config, shared)
        self.markov_head = MarkovHead(shared.vocabulary, self.vocabulary, config.rank)

    def read(self, before: Tensor) -> Tensor:
        """Tokens [...] of the target's vocabulary -> [..., rank], for `bias`."""
        return self.markov_head.markov_w1(before)  # type: ignore[no-any-return]

    def bias(self, read: Tensor) -> Tensor:
        """[..., rank] -> [..., D]: what the token before adds to the logits."""
        return linear(read, self.markov_head.markov_w2.weight, exact=True)


def read_block(saved: Checkpoint, shared: SharedWeights) -> tuple[Block, dict[str, Tensor]]:
    config, tensors = _read(saved, shared)
    return built(Block, config, shared), tensors


def read_dspark(saved: Checkpoint, shared: SharedWeights) -> tuple[DSpark, dict[str, Tensor]]:
    """Its estimate of what will be accepted (`confidence_head`) is not read."""
    if saved.config.get("speculators_model_type") != "dspark":
        raise saved.wrong("is no speculators folder of type 'dspark'; choose a head in that format.")
    if (kind := saved.config.get("markov_head_type", "vanilla")) != "vanilla":
        raise saved.wrong(f"has a Markov head of type '{kind}'; only 'vanilla' is supported, so choose another head.")
    block, tensors = _read(saved, shared)
    config = DSparkConfig(**vars(block), rank=saved.number("markov_rank"))
    return built(DSpark, config, shared), {n: t for n, t in tensors.items() if not n.startswith("confidence_head.")}


def _read(saved: Checkpoint, shared: SharedWeights) -> tuple[BlockConfig, dict[str, Tensor]]:
    speculators = "speculators_model_type" in saved.config
    layer = saved.section("transformer_layer_config") if speculators else saved.config
    ours = saved.config if speculators else saved.section("dflash_config")
    tensors = renamed(saved.tensors, ("layers.", "stack."))
    shape = shape_of(saved, layer, "stack.0.self_attn.", tensors)
    same_hidden(saved, shape.hidden, shared)
    _refuse(saved, ours)
    vocabulary = selected(saved, layer, tensors, shared)
    lm_head = "lm_head.weight" in tensors or vocabulary is not None
    config = BlockConfig(
        shape,
        depth=saved.number("num_hidden_layers", layer),
        size=saved.number("block_size", ours if "block_size" in ours else None),
        mask_token=_mask_token(saved, ours, shared),
        layers=_layers(saved, ours, shared),
        own_weights=OwnWeights("embed_tokens.weight" in tensors, lm_head, vocabulary),
    )
    return config, tensors


def _refuse(saved: Checkpoint, ours: dict[str, Any]) -> None:
    """Refuses variants that are computed differently."""
    if keys := [key for key in UNSUPPORTED if ours.get(key)]:
        raise saved.wrong(
            f"has '{keys[0]}' = {ours[keys[0]]} in its config.json, which is not supported; choose another head."
        )
    if ours.get("sample_from_anchor") or ours.get("projector_type", "dflash") != "dflash":
        raise saved.wrong("is a variant of DFlash or DSpark that is not supported; choose another head.")


def _mask_token(saved: Checkpoint, ours: dict[str, Any], shared: SharedWeights) -> int:
    token = ours.get("mask_token_id")
    if not isinstance(token, int) or not 0 <= token < shared.vocabulary:
        raise saved.wrong(
            f"has the mask token {token}, but this target has {shared.vocabulary:,} tokens; choose a head that was "
            "trained for this target."
        )
    return token


def _layers(saved: Checkpoint, ours: dict[str, Any], shared: SharedWeights) -> tuple[int, ...]:
    """The hidden states it fuses, in this engine's numbering."""
    inputs = saved.indexes("aux_hidden_state_layer_ids", ours)
    outputs = saved.indexes("target_layer_ids", ours)
    if inputs is None and outputs is None:
        raise saved.wrong("does not list the hidden states it reads in its config.json; choose another head.")
    return within(saved, inputs or tuple(layer + 1 for layer in outputs or ()), shared)


def write_block(head: Block, target: str) -> Published:
    ours = head.config
    config = layer_config(ours.shape, head.shared.vocabulary) | {
        "architectures": ["DFlashDraftModel"],
        "base_model": target,
        "num_hidden_layers": ours.depth,
        "num_target_layers": head.shared.layers,
        "block_size": ours.size,
        "draft_vocab_size": head.vocabulary,
        "dflash_config": {"mask_token_id": ours.mask_token, "target_layer_ids": [layer - 1 for layer in ours.layers]},
    }
    return Published(config, renamed(head.state_dict(), ("stack.", "layers.")) | marks(head))


def write_dspark(head: DSpark, target: str) -> Published:
    ours = head.config
    assert isinstance(ours, DSparkConfig)
    config = speculators_config("dspark", ours.size - 1, target) | {
        "architectures": ["Qwen3DSparkModel"],
        "transformer_layer_config": layer_config(ours.shape, head.shared.vocabulary)
        | {"num_hidden_layers": ours.depth},
        "draft_vocab_size": head.vocabulary,
        "block_size": ours.size,
        "mask_token_id": ours.mask_token,
        "aux_hidden_state_layer_ids": list(ours.layers),
        "markov_rank": ours.rank,
        "markov_head_type": "vanilla",
        "enable_confidence_head": False,
        "sample_from_anchor": False,
    }
    return Published(config, renamed(head.state_dict(), ("stack.", "layers.")) | marks(head))
