"""The forward of a `Decoder` as one compiled call: `native/native_program.py` with a model's weights and cache."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from draftscope.models.cache.slots import SlotCache
from draftscope.models.forward.decoder import Decoder, Weight
from draftscope.models.forward.lean import Output
from draftscope.models.forward.stored import StoredEmbedding
from draftscope.models.native import places as at
from draftscope.models.native.available import programs
from draftscope.models.native.crowd import crowd
from draftscope.models.native.scratch import scratch

Mask = Tensor | dict[str, Tensor]  # one for all layers, or one for each type


class NativeDecoder:
    """Called by `Model.forward` like a transformers model; reads and writes the same `SlotCache`.

    `available.why_not` must say that this machine can run the program.
    """

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self._numbers = np.array([decoder.eps, decoder.scale], dtype=np.float32)
        self._windows = np.array(decoder.windows, dtype=np.int64)
        self._angles = self._tables(0)
        self._table, self._fixed = self._constants()

    def first(self, count: int) -> NativeDecoder:
        """The first `count` layers with the norm and the head; shares the weights."""
        shallow = copy(self)
        shallow.decoder = self.decoder.first(count)
        shallow._table, shallow._fixed = shallow._constants()
        return shallow

    @torch.no_grad()
    def _tables(self, positions: int) -> tuple[Tensor, Tensor]:
        """cos and sin [kinds, positions, rotated columns / 2] in float32."""
        cos, sin = self.decoder.angles(positions)
        half = cos.shape[2] // 2
        return cos[:, :, :half].contiguous(), sin[:, :, :half].contiguous()

    def _constants(self) -> tuple[Any, Any]:
        """The addresses of the layers' weights, and the arguments that are the same in every forward."""
        decoder = self.decoder
        layers = zip(decoder.layers, decoder.kinds, strict=True)
        table = np.array([[*map(_address, layer), kind] for layer, kind in layers], dtype=np.int64)
        a = np.zeros(at.ARGUMENTS, dtype=np.int64)
        a[at.HIDDEN], a[at.MLP] = decoder.head.shape[1], decoder.layers[0].down.shape[1]
        a[at.HEADS], a[at.KV_HEADS], a[at.WIDTH] = decoder.heads, decoder.kv_heads, decoder.width
        a[at.LAYERS], a[at.WEIGHTS], a[at.NUMBERS] = len(table), table.ctypes.data, self._numbers.ctypes.data
        a[at.NORM], a[at.NORM_BIAS] = _address(decoder.norm), _address(decoder.norm_bias)
        a[at.VOCABULARY], a[at.HEAD], a[at.HEAD_BIAS] = (
            len(decoder.head),
            _address(decoder.head),
            _address(decoder.head_bias),
        )
        a[at.ACTIVATION], a[at.GATED] = decoder.activation, decoder.gated
        a[at.PARALLEL], a[at.INTERLEAVED] = decoder.parallel, decoder.interleaved
        a[at.KINDS], a[at.WINDOWS] = len(self._windows), self._windows.ctypes.data
        a[at.ROTARY] = 2 * self._angles[0].shape[2]
        return table, a

    @property
    def packed(self) -> bool:
        """Whether it reads weights as they lie in a quantised file."""
        return isinstance(self.decoder.embed, StoredEmbedding)

    @torch.inference_mode()
    def __call__(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        attention_mask: Mask | None,
        past_key_values: SlotCache,
        use_cache: bool = True,  # noqa: ARG002 - as transformers' models are called
        logits_to_keep: int = 0,
        output_hidden_states: bool = False,
    ) -> Output:
        """Logits [B, T, V] in float32 (or of the last `logits_to_keep` rows) of `input_ids` [B, T]."""
        (batch, rows), table, decoder = input_ids.shape, past_key_values.table, self.decoder
        if table.view > self._angles[0].shape[1]:
            self._angles = self._tables(2 * table.view)
        cos, sin = self._angles
        x = self._embedded(input_ids).contiguous()
        cached = past_key_values.rows(decoder.kv_heads, decoder.width, torch.bfloat16)
        kept = torch.arange(batch * rows)
        if logits_to_keep:
            kept = kept.view(batch, rows)[:, -logits_to_keep:].contiguous()
        logits = torch.empty((batch, kept.numel() // batch, len(decoder.head)))
        shape = len(decoder.layers) + 2, *x.shape
        states = x.new_empty(shape, dtype=torch.bfloat16) if output_hidden_states else None
        mask = self._mask(attention_mask)
        positions, slots = position_ids.contiguous(), table.slots.contiguous()
        a = self._fixed.copy()
        a[at.ROWS], a[at.TEXT_ROWS], a[at.COLUMNS] = batch * rows, rows, table.view
        a[at.ANGLES], a[at.COS], a[at.SIN] = cos.shape[1], _address(cos), _address(sin)
        a[at.EMBEDDED], a[at.POSITIONS], a[at.SLOTS] = _address(x), _address(positions), _address(slots)
        a[at.MASK], a[at.STATES], a[at.EXACT] = _address(mask), _address(states), x.dtype == torch.float32
        a[at.CACHE], a[at.SEQUENCES], a[at.CAPACITY] = _address(cached), batch, table.capacity
        a[at.LOGIT_ROWS], a[at.LOGITS_OF], a[at.LOGITS] = _address(kept), kept.numel(), _address(logits)
        with crowd.team(torch.get_num_threads(), (int(a[at.WEIGHTS]), batch, rows)) as threads:
            memory = scratch(a, threads)
            programs().run(programs().forward, a, at.TEAM, threads)
            del memory
        return Output(logits, () if states is None else states)

    def _embedded(self, tokens: Tensor) -> Tensor:
        """[B, T, hidden] in bfloat16, or in float32 from the blocks of a file."""
        embed = self.decoder.embed
        return embed.rows(tokens) if isinstance(embed, StoredEmbedding) and not embed._forward_hooks else embed(tokens)

    def _mask(self, mask: Mask | None) -> Tensor | None:
        """[kinds, B, 1, T, columns], or None."""
        if isinstance(mask, dict):
            return torch.stack([mask[kind] for kind in self.decoder.types])
        return None if mask is None else mask.contiguous()


def _address(tensor: Weight | None) -> int:
    return 0 if tensor is None else int(tensor.data_ptr())
