"""The lean forward in bfloat16 as one compiled call: `models/native/program.py` with a model's weights and cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from draftscope.models.cache.slots import SlotCache
from draftscope.models.forward.lean import LeanLlama, Output, Weights
from draftscope.models.native import places as at
from draftscope.models.native.available import programs, why_not
from draftscope.models.native.crowd import crowd
from draftscope.models.native.places import BLOCK
from draftscope.models.native.scratch import scratch


class NativeLlama(LeanLlama):
    """`lean` with its forward compiled for this processor, which `available.why_not` must say is possible."""

    masks_chains = True

    def __init__(self, lean: LeanLlama) -> None:
        vars(self).update(vars(lean))
        self._small = [_in_float32(each) for each in self._weights]
        self._last_norm = self._norm.float()
        self._number = np.array([self._eps], dtype=np.float32)
        self._cosines = self._halves()
        self._fixed = self._constants()

    @staticmethod
    def covers(lean: LeanLlama) -> bool:
        """Whether the weights are bfloat16 and every product's inputs are whole blocks."""
        sizes = lean._embedding.shape[1], lean._width, lean._weights[0].down.shape[1]
        tensors = [each for layer in lean._weights for each in layer if each is not None]
        tensors += [lean._head_weight, lean._embedding]
        plain = all(each.dtype == torch.bfloat16 and each.is_contiguous() for each in tensors)
        return plain and all(size % BLOCK == 0 for size in sizes)

    def first(self, count: int) -> NativeLlama:
        shallow = super().first(count)
        assert isinstance(shallow, NativeLlama)
        shallow._fixed = shallow._constants()
        return shallow

    def _halves(self) -> tuple[Tensor, Tensor]:
        """cos and sin [positions, D / 2] in float32."""
        positions = torch.arange(len(self._angles[0]))[None]
        cos, sin = self._rotary(self._last_norm, positions)
        half = self._width // 2
        return cos[0, :, :half].contiguous(), sin[0, :, :half].contiguous()

    def _constants(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The arguments that are the same in every forward."""
        layers = len(self._layers)
        pairs = list(zip(self._weights, self._small, strict=True))[:layers]
        addresses = [
            [
                0 if each is None else each.data_ptr()
                for each in (norm, w.qkv, w.out, mlp_norm, w.gate_up, w.down, *rest)
            ]
            for w, (norm, mlp_norm, *rest) in pairs
        ]
        self._table = np.array(addresses, dtype=np.int64)
        fixed = np.zeros(at.ARGUMENTS, dtype=np.int64)
        fixed[at.HIDDEN], fixed[at.HEADS], fixed[at.KV_HEADS] = self._embedding.shape[1], self._heads, self._kv_heads
        fixed[at.WIDTH], fixed[at.MLP], fixed[at.LAYERS] = self._width, self._weights[0].down.shape[1], layers
        fixed[at.VOCABULARY], fixed[at.EPS] = len(self._head_weight), self._number.ctypes.data
        fixed[at.WEIGHTS], fixed[at.NORM] = self._table.ctypes.data, self._last_norm.data_ptr()
        fixed[at.HEAD] = self._head_weight.data_ptr()
        return fixed

    @torch.inference_mode()
    def __call__(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        attention_mask: Tensor | None,
        past_key_values: SlotCache,
        use_cache: bool = True,  # noqa: ARG002 - as transformers' models are called
        logits_to_keep: int = 0,
        output_hidden_states: bool = False,
    ) -> Output:
        """As `LeanLlama`'s, with logits in float32."""
        (batch, rows), table = input_ids.shape, past_key_values.table
        if table.view > len(self._cosines[0]):
            self._angles = self._tables(2 * table.view)
            self._cosines = self._halves()
        x = self._embed(input_ids).contiguous()
        cached = past_key_values.rows(x.new_empty((batch, self._kv_heads, 1, self._width)))
        kept = torch.arange(batch * rows).view(batch, rows)[:, -logits_to_keep:].contiguous()
        logits = torch.empty((*kept.shape, len(self._head_weight)))
        layers, hidden = len(self._layers), x.shape[2]
        states = x.new_empty((layers + 1, batch, rows, hidden)) if output_hidden_states else None
        mask = None if attention_mask is None else attention_mask.contiguous()
        positions, slots = position_ids.contiguous(), table.slots.contiguous()
        a = self._fixed.copy()
        a[at.ROWS], a[at.TEXT_ROWS], a[at.COLUMNS] = batch * rows, rows, table.view
        a[at.COS], a[at.SIN] = self._cosines[0].data_ptr(), self._cosines[1].data_ptr()
        a[at.EMBEDDED], a[at.POSITIONS], a[at.SLOTS] = x.data_ptr(), positions.data_ptr(), slots.data_ptr()
        a[at.MASK] = 0 if mask is None else mask.data_ptr()
        a[at.CACHE], a[at.SEQUENCES], a[at.CAPACITY] = cached.data_ptr(), batch, table.capacity
        a[at.LOGIT_ROWS], a[at.LOGITS_OF], a[at.LOGITS] = kept.data_ptr(), kept.numel(), logits.data_ptr()
        a[at.STATES] = 0 if states is None else states.data_ptr()
        with crowd.team(torch.get_num_threads(), (int(a[at.WEIGHTS]), batch, rows)) as threads:
            memory = scratch(a, threads)
            programs().run(programs().forward, a.ctypes.data, threads, 0)
            del memory
        return Output(logits, () if states is None else tuple(states))


def _in_float32(weights: Weights) -> list[Tensor | None]:
    """Norms and biases as the program reads them: norm, mlp_norm, and the three of `Weights.extras`."""
    small = (weights.norm, weights.mlp_norm, *weights.extras)
    return [None if each is None else each.float() for each in small]


def native_or_lean(network: Any) -> LeanLlama:
    """The forward of a network that `lean.covers`: compiled if it is in bfloat16 and this machine can compile."""
    if network.dtype != torch.bfloat16 or why_not():
        return LeanLlama(network)
    lean = LeanLlama(network, packed=False)
    return NativeLlama(lean) if NativeLlama.covers(lean) else LeanLlama(network)
