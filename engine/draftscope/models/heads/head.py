"""The base classes of heads: small networks that read the target's hidden states and predict the next tokens.

A head returns logits over its own vocabulary. The engine applies temperature and the other warpers to get a
distribution; `to_target` then maps that distribution to the target's vocabulary.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from draftscope.models.cache.slots import VECTOR, WIDE, SlotCache
from draftscope.models.forward import stored
from draftscope.models.forward.graphs import Graphs, OnCuda, Recorder
from draftscope.models.heads.layer import Angles, HeadShape, Rotary
from draftscope.models.heads.step import CompiledStep, StepParts
from draftscope.models.native.linear import linear
from draftscope.models.native.stored_weight import StoredWeight

FEW = 8  # rows whose logits take hardly longer than those of one


@dataclass(frozen=True)
class SharedWeights:
    """What a head may use of its target: input and output weights [V, H], and the number of layers. Weights that lie as
    in a file are widened once a head asks for all of them."""

    inputs: Tensor | StoredWeight
    outputs: Tensor | StoredWeight
    layers: int

    @classmethod
    def of(cls, network: Any) -> SharedWeights:
        """What a head may use of a transformers causal language model."""
        first, last = network.get_input_embeddings(), network.get_output_embeddings()
        layers = network.config.get_text_config().num_hidden_layers
        return cls(stored.stored_of(first) or first.weight, stored.stored_of(last) or last.weight, layers)

    @property
    def embedding(self) -> Tensor:
        """[V, H]"""
        return self.inputs if isinstance(self.inputs, Tensor) else self.inputs.wide

    @property
    def lm_head(self) -> Tensor:
        """[V, H]"""
        return self.outputs if isinstance(self.outputs, Tensor) else self.outputs.wide

    def embed(self, tokens: Tensor) -> Tensor:
        """[...] -> their rows of the embedding [..., H]; no other row is widened."""
        if isinstance(self.inputs, Tensor):
            return F.embedding(tokens, self.inputs)
        return self.inputs.look_up(tokens).to(self.dtype)

    @property
    def device(self) -> torch.device:
        return self.inputs.device if isinstance(self.inputs, Tensor) else torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        return self.inputs.dtype if isinstance(self.inputs, Tensor) else stored.WIDE

    @property
    def vocabulary(self) -> int:
        return self.outputs.shape[0]

    @property
    def hidden(self) -> int:
        return self.outputs.shape[1]


@dataclass(frozen=True)
class OwnWeights:
    """What a head has itself instead of using the target's. If `vocabulary` is set, it is the size of a subset of the
    target's vocabulary, given by `d2t`."""

    embedding: bool = False
    lm_head: bool = False
    vocabulary: int | None = None


SHARES_ALL = OwnWeights()


class Head(nn.Module, ABC):
    """A trained head of a target.

    `layers` are the target's hidden states it reads (i is the input of decoder layer i; the number of layers is the
    output of the final norm, and one more its input), `vocabulary` is the width D of its logits, `depth` the number of
    layers of its cache.
    """

    d2t: Tensor | None  # [D], only if its vocabulary is a subset of the target's
    max_draft: float = math.inf  # tokens that it can guess in a round

    def __init__(
        self, shared: SharedWeights, weights: OwnWeights, hidden: int, layers: tuple[int, ...], depth: int
    ) -> None:
        super().__init__()
        self.layers = layers
        self.vocabulary = weights.vocabulary or shared.vocabulary
        self.depth = depth
        self.shared = shared  # not a module, so it is neither trained nor saved with the head
        self.embed_tokens = nn.Embedding(shared.vocabulary, hidden) if weights.embedding else None
        self.lm_head = nn.Linear(hidden, self.vocabulary, bias=False) if weights.lm_head else None
        self.graphs: Graphs | None = None
        pruned = weights.vocabulary is not None
        self.register_buffer("d2t", torch.zeros(self.vocabulary, dtype=torch.long) if pruned else None)

    @property
    def targets(self) -> Tensor:
        """[D]: the target's token id of each of the head's tokens. `d2t` holds the offsets, as published."""
        ids = torch.arange(self.vocabulary, device=self.shared.device)
        return ids if self.d2t is None else ids + self.d2t

    def to_target(self, distributions: Tensor) -> Tensor:
        """Distributions [..., D] over the head's vocabulary -> [..., V] over the target's, 0 for all other tokens."""
        if self.d2t is None:
            return distributions
        whole = distributions.new_zeros((*distributions.shape[:-1], self.shared.vocabulary))
        return whole.index_copy_(-1, self.targets, distributions)

    def cache(self, batch: int, capacity: int) -> SlotCache:
        """An empty cache for `batch` sequences; each row that the head reads takes up one slot."""
        device = self.shared.device
        if self.graphs is not None:
            return self.graphs.cache(self.depth, batch, capacity, device, 0)
        vector = WIDE if device.type == "cuda" else VECTOR  # the same sums with graphs and without
        return SlotCache(self.depth, batch, capacity, device, vector=vector)

    def record_graphs(self, record: Recorder | None = None) -> None:
        """From now on, drafting is replayed from CUDA graphs, one for each shape.

        `record` is for tests; None records on the head's CUDA device.
        """
        self.graphs = Graphs(record or OnCuda(self.shared.device))

    def embed(self, tokens: Tensor) -> Tensor:
        """The target's tokens [B, T] -> [B, T, hidden], with the head's own embedding or the target's."""
        return self.shared.embed(tokens) if self.embed_tokens is None else self.embed_tokens(tokens)

    @property
    def output(self) -> Tensor:
        """The output weights [D, hidden]: the head's own or the target's."""
        return self.shared.lm_head if self.lm_head is None else self.lm_head.weight

    def project(self, hidden: Tensor) -> Tensor:
        """[..., hidden] -> logits [..., D]."""
        return linear(hidden, self.output, exact=True)


class RecurrentHead(Head):
    """A head that drafts token by token: each step's features are inputs of the next (EAGLE-1, EAGLE-3, MTP).

    Every feature is paired with the *next* token: row i is the feature at position i and token i + 1, and its logits
    predict token i + 2. Row i's position is i.
    """

    def __init__(self, shared: SharedWeights, weights: OwnWeights, shape: HeadShape, layers: tuple[int, ...]) -> None:
        super().__init__(shared, weights, shape.hidden, layers, depth=1)
        self._rotary, self._eps = Rotary(shape), shape.eps
        self.step: CompiledStep | None = None  # reads and writes caches instead of the modules

    def compile_step(self) -> None:
        """From now on, drafting runs one compiled program a step, where this machine and the head allow it.

        The weights must stay where they are.
        """
        parts = self.parts()
        if CompiledStep.covers(parts, self.embed(torch.zeros(1, dtype=torch.long, device=self.shared.device))):
            self.step = CompiledStep(parts, self._eps, self._rotary)

    def fuse(self, states: Tensor) -> Tensor:
        """The target's hidden states [B, T, len(layers) x H] -> features [B, T, hidden] for `forward`.

        The head's own features go into the next step directly, without `fuse`.
        """
        return states

    def forward(
        self,
        tokens: Tensor,
        features: Tensor,
        position_ids: Tensor,
        mask: Tensor | None = None,
        cache: SlotCache | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Logits [B, T, D], and the features [B, T, hidden] of the next step.

        features [B, T, hidden]; tokens [B, T]: for each feature the next token, in the target's vocabulary.
        position_ids [B, T]. `cache` is ready to write these T rows. `mask` [B, 1, T, view] bool: what each row attends
        to in the cache (`masks.attention_mask`). None is causal attention: for training, for a prompt read into an
        empty cache, for one row of a chain if all sequences have the same length, and for every chain with a compiled
        `step`.
        """
        if self.step is not None and cache is not None:
            logits, features = self.step(self.embed(tokens), features, position_ids, mask, cache, logits=True)
            assert logits is not None
            return logits, features
        features = self.advance(tokens, features, position_ids, mask, cache)
        return self.logits(features), features

    def advance(
        self,
        tokens: Tensor,
        features: Tensor,
        position_ids: Tensor,
        mask: Tensor | None = None,
        cache: SlotCache | None = None,
    ) -> Tensor:
        """`forward` without the logits, which are not needed for the rows of a prompt except the last."""
        if self.step is not None and cache is not None:
            return self.step(self.embed(tokens), features, position_ids, mask, cache)[1]
        rows = tokens.shape[1]
        if mask is None and cache is not None and cache.table.before and (rows > 1 or not cache.table.even):
            raise ValueError("rows after a cached text need a mask; see masks.attention_mask")
        angles = self._rotary(position_ids, features.dtype)
        return self._advance(self.embed(tokens), features, angles, mask, None if cache is None else cache.layers[0])

    def read(
        self, tokens: Tensor, states: Tensor, position_ids: Tensor, mask: Tensor | None, cache: SlotCache
    ) -> tuple[Tensor | None, Tensor]:
        """`forward` on the target's hidden states [B, T, len(layers) x H], which it fuses. Logits only of few rows, and
        only if the same program computes them."""
        if self.step is None:
            return None, self.advance(tokens, self.fuse(states), position_ids, mask, cache)
        fuses, few = self.step.fuses, tokens.numel() <= FEW
        features = states if fuses else self.fuse(states)
        return self.step(self.embed(tokens), features, position_ids, mask, cache, logits=few, states=fuses)

    @abstractmethod
    def parts(self) -> StepParts:
        """Its modules by what they do."""

    @abstractmethod
    def logits(self, features: Tensor) -> Tensor:
        """The logits [..., D] of features [..., hidden] that `advance` returned."""

    @abstractmethod
    def _advance(self, embeds: Tensor, features: Tensor, angles: Angles, mask: Tensor | None, cache: Any) -> Tensor:
        """One step: embeddings and features [B, T, hidden] -> the next features [B, T, hidden]."""
