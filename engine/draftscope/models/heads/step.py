"""A step of a recurrent head as one compiled call: `models/native/native_head.py` with a head's weights and cache.

It computes what the head's modules compute, with float32 between the products, and with weights of 8 bits where the
machine can multiply them; tests compare both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from draftscope.models.cache.slots import SlotCache
from draftscope.models.forward.lean import joined
from draftscope.models.heads.layer import Attention, Mlp, Rotary
from draftscope.models.native import places as at
from draftscope.models.native.available import programs, why_not
from draftscope.models.native.crowd import crowd
from draftscope.models.native.rounded import rounded
from draftscope.models.native.scratch import scratch


class StepParts(NamedTuple):
    """The modules of a recurrent head whose hidden size is H, by what they do. A norm that is None is left out."""

    embedded_norm: nn.RMSNorm | None
    features_norm: nn.RMSNorm | None
    fusion: nn.Linear | None  # 2 H -> H; None: attention reads both
    attention_norm: nn.RMSNorm | None  # after `fusion`
    attention: Attention
    mlp_norm: nn.RMSNorm
    mlp: Mlp
    last_norm: nn.RMSNorm | None  # before the output weights
    output: Tensor  # weights [D, H]
    normed_residual: bool = False
    normed_next: bool = False
    state_norms: Sequence[nn.Module | None] = ()  # of each hidden state that `state_fusion` fuses
    state_fusion: nn.Linear | None = None  # len(state_norms) H -> H


class CompiledStep:
    """`RecurrentHead.forward`; `parts.attention` and `parts.mlp` get views of joined weights. Chains need no mask.

    Weights are rounded to 8 bits where this machine can multiply them: a step takes the time in which they are read.
    """

    def __init__(self, parts: StepParts, eps: float, rotary: Rotary) -> None:
        attention, mlp = parts.attention, parts.mlp
        self._qkv = joined([attention.q_proj, attention.k_proj, attention.v_proj])
        self._gate_up = joined([mlp.gate_proj, mlp.up_proj])
        self._output, self._rotary = parts.output, rotary
        self._kv_heads, self._width = attention.k_proj.out_features // attention.head_width, attention.head_width
        self._numbers = np.array([eps, self._width**-0.5], dtype=np.float32)
        self._windows = np.zeros(1, dtype=np.int64)
        self._cosines = self._halves(0)
        self._fixed, self._alive = self._constants(parts)
        self.fuses = parts.state_fusion is not None

    @staticmethod
    def covers(parts: StepParts, embedded: Tensor) -> bool:
        """Whether all weights are bfloat16 on a CPU that can run the program, without what it does not compute.

        `embedded` [1, hidden]: a token, as the step reads it.
        """
        attention = parts.attention
        extras = (attention.q_norm, attention.q_proj.bias, attention.o_proj.bias)
        weights = [embedded, parts.output, *attention.parameters(), *parts.mlp.parameters()]
        weights += [linear.weight for linear in (parts.fusion, parts.state_fusion) if linear is not None]
        plain = all(w.dtype == torch.bfloat16 and w.device.type == "cpu" and w.is_contiguous() for w in weights)
        sizes = [attention.head_width, *(w.shape[-1] for w in weights)]
        hidden = parts.mlp.gate_proj.in_features
        fits = all(size % at.BLOCK == 0 for size in sizes) and embedded.shape[1] == hidden
        return plain and fits and all(extra is None for extra in extras) and not why_not()

    def _constants(self, parts: StepParts) -> tuple[Any, Any]:
        """The arguments that are the same in every step, and what they are the addresses of."""
        alive: list[Any] = []

        def address(tensor: Tensor | None, dtype: torch.dtype = torch.bfloat16) -> int:
            if tensor is None:
                return 0
            alive.append(tensor.detach().to(dtype))
            return int(alive[-1].data_ptr())

        def weight(tensor: Tensor) -> int:
            small = rounded(tensor) if programs().panels else None
            if small is None:
                return address(tensor)
            alive.append(small.read)
            return small.data_ptr()

        def number(norm: nn.Module | None) -> int:
            return address(norm.weight if isinstance(norm, nn.RMSNorm) else None, torch.float32)

        fusion, a = parts.fusion, np.zeros(at.H_ARGUMENTS, dtype=np.int64)
        layer = [number(parts.attention_norm), weight(self._qkv), weight(parts.attention.o_proj.weight)]
        layer += [number(parts.mlp_norm), weight(self._gate_up), weight(parts.mlp.down_proj.weight)]
        table = np.zeros(at.PER_LAYER, dtype=np.int64)
        table[: len(layer)] = layer
        a[at.HIDDEN], a[at.MLP] = parts.mlp.gate_proj.in_features, parts.mlp.gate_proj.out_features
        a[at.HEADS], a[at.KV_HEADS] = parts.attention.q_proj.out_features // self._width, self._kv_heads
        a[at.WIDTH], a[at.LAYERS], a[at.NUMBERS] = self._width, 1, self._numbers.ctypes.data
        a[at.KINDS], a[at.WINDOWS], a[at.ROTARY] = 1, self._windows.ctypes.data, self._width
        a[at.ACTIVATION], a[at.GATED] = at.SILU, True
        a[at.WEIGHTS], a[at.NORM] = table.ctypes.data, number(parts.last_norm)
        a[at.VOCABULARY], a[at.HEAD] = len(parts.output), weight(parts.output)
        a[at.EMBEDDED_NORM], a[at.FEATURES_NORM] = number(parts.embedded_norm), number(parts.features_norm)
        a[at.FUSION] = 0 if fusion is None else weight(fusion.weight)
        a[at.FUSION_BIAS] = 0 if fusion is None else address(fusion.bias, torch.float32)
        if parts.state_fusion is not None:
            norms = np.array([number(norm) for norm in parts.state_norms], dtype=np.int64)
            alive.append(norms)
            a[at.STATE_COUNT], a[at.STATE_NORMS] = len(norms), norms.ctypes.data
            a[at.STATE_FUSION] = weight(parts.state_fusion.weight)
        a[at.NORMED_RESIDUAL], a[at.NORMED_NEXT] = parts.normed_residual, parts.normed_next
        return a, (table, alive)

    def _halves(self, columns: int) -> tuple[Tensor, Tensor]:
        """cos and sin [columns, D / 2] in float32."""
        cos, sin = self._rotary(torch.arange(columns)[None], torch.float32)
        half = self._width // 2
        return cos[0, :, 0, :half].contiguous(), sin[0, :, 0, half:].contiguous()

    @torch.inference_mode()
    def __call__(
        self,
        embeds: Tensor,
        features: Tensor,
        position_ids: Tensor,
        mask: Tensor | None,
        cache: SlotCache,
        logits: bool = False,
        states: bool = False,
    ) -> tuple[Tensor | None, Tensor]:
        """Logits [B, T, D] in float32 if requested, and the features [B, T, H] of the next step.

        `features` [B, T, H] are, if `states`, the target's hidden states [B, T, S H], which the step must be able to
        fuse. Without a mask, each row attends to the cached rows of its sequence and to the new ones up to itself.
        """
        (batch, rows, _), table, hidden = features.shape, cache.table, int(self._fixed[at.HIDDEN])
        if table.capacity > len(self._cosines[0]):
            self._cosines = self._halves(table.capacity)
        count = batch * rows
        embeds, features = embeds.contiguous(), features.contiguous()
        cached = cache.rows(self._kv_heads, self._width, features.dtype)
        following, every = features.new_empty((batch, rows, hidden)), torch.arange(count)
        scores = torch.empty((batch, rows, len(self._output))) if logits else None
        seen = None if mask is None else mask.contiguous()
        positions, slots = position_ids.contiguous(), table.slots.contiguous()
        a = self._fixed.copy()
        a[at.ROWS], a[at.TEXT_ROWS], a[at.COLUMNS] = count, rows, table.view
        a[at.COS], a[at.SIN] = self._cosines[0].data_ptr(), self._cosines[1].data_ptr()
        a[at.EMBEDDED], a[at.NEXT] = embeds.data_ptr(), following.data_ptr()
        a[at.STATES_READ if states else at.FEATURES] = features.data_ptr()
        a[at.POSITIONS], a[at.SLOTS] = positions.data_ptr(), slots.data_ptr()
        a[at.MASK] = 0 if seen is None else seen.data_ptr()
        a[at.CACHE], a[at.SEQUENCES], a[at.CAPACITY] = cached.data_ptr(), batch, table.capacity
        a[at.LOGIT_ROWS], a[at.LOGITS_OF] = every.data_ptr(), count
        a[at.LOGITS] = 0 if scores is None else scores.data_ptr()
        with crowd.team(torch.get_num_threads(), (int(a[at.WEIGHTS]), batch, rows, logits)) as threads:
            memory = scratch(a, threads)
            programs().run(programs().head, a, at.TEAM, threads)
            del memory
        return scores, following
