"""The lean forward compiled by torch.compile: the same arithmetic with small operations fused and no dispatch.

Compiling takes tens of seconds and needs a C++ compiler, so it is optional, and the result is kept only if it is faster
on this machine. It handles the forwards of rounds, few rows of one text; prompts and batches use the lean forward.
"""

from __future__ import annotations

import shutil
import statistics
from time import perf_counter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from draftscope.models.cache.slots import VECTOR, SlotCache
from draftscope.models.forward.lean import FEWEST_QUERIES, MOST_PACKED, LeanLlama, Output, Weights
from draftscope.models.forward.native import NativeDecoder

WIDEST = 64  # rows
EXAMPLE = (11, 9 * VECTOR, 13 * VECTOR)  # rows, columns, slots: sizes that occur nowhere else, so none is specialised
TRIALS = 30


def compiler() -> str | None:
    """The C++ compiler for torch to use; None if there is none."""
    return shutil.which("g++") or shutil.which("clang++")


class CompiledLlama(LeanLlama):
    """`lean`, the forward of `network`, compiled for rounds. The constructor compiles, or raises RuntimeError.

    A cache needs `VECTOR` slots more than a forward attends to: as many columns as slots would be another program.
    """

    def __init__(self, lean: LeanLlama, network: Any) -> None:
        vars(self).update(vars(lean))
        stack = _Stack(self._weights, self._norm, network.lm_head.weight, (self._heads, self._kv_heads), self._eps)
        options: dict[str, Any] = {"freezing": True, "cpp_wrapper": True}
        self._stack: Any = torch.compile(stack, fullgraph=True, dynamic=False, options=options)
        try:
            self._compile()
        except Exception as error:  # the compilers' errors have no common base class
            raise RuntimeError(f"the forward cannot be compiled: {str(error).strip().splitlines()[0]}") from error

    @torch.inference_mode()
    def _compile(self) -> None:
        """Compiles once for any number of rows, columns and slots."""
        rows, columns, slots = EXAMPLE
        like = self._embedding
        x, angle = like.new_zeros(1, rows, like.shape[1]), like.new_zeros(1, rows, 1, self._width)
        mask = torch.ones((1, 1, rows, columns), dtype=torch.bool)
        cached = [like.new_zeros(1, self._kv_heads, slots, self._width) for _ in range(2 * len(self._layers))]
        inputs = (x, angle, angle.clone(), mask, torch.arange(rows), cached)
        for tensor, sizes in ((x, (1,)), (inputs[1], (1,)), (inputs[2], (1,)), (mask, (2, 3)), (inputs[4], (0,))):
            for size in sizes:
                torch._dynamo.mark_dynamic(tensor, size)
        for each in cached:
            torch._dynamo.mark_dynamic(each, 2)
        self._stack(*inputs)

    def first(self, count: int) -> LeanLlama:
        """The first `count` layers, not compiled: the compiled program has all layers."""
        shallow = super().first(count)
        assert isinstance(shallow, CompiledLlama)
        shallow._stack = None
        return shallow

    @torch.inference_mode()
    def __call__(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        attention_mask: Tensor | None,
        past_key_values: SlotCache,
        use_cache: bool = True,
        logits_to_keep: int = 0,
        output_hidden_states: bool = False,
    ) -> Output:
        """As `LeanLlama`'s. Fewer than `FEWEST_QUERIES` rows are padded with copies of the last one."""
        (batch, rows), layers = input_ids.shape, past_key_values.layers
        allocated = all(layer.is_initialized for layer in layers)
        if self._stack is None or attention_mask is None or batch > 1 or rows > WIDEST or not allocated:
            return super().__call__(
                input_ids,
                position_ids,
                attention_mask,
                past_key_values,
                use_cache,
                logits_to_keep,
                output_hidden_states,
            )
        x, slots = self._embed(input_ids), past_key_values.table.slots[0]
        cos, sin = self._cos_sin(position_ids, past_key_values.table.view)
        if rows < FEWEST_QUERIES:
            padded = torch.arange(FEWEST_QUERIES).clamp_(max=rows - 1)
            x, cos, sin, slots = x[:, padded], cos[:, padded], sin[:, padded], slots[padded]
            attention_mask = attention_mask[:, :, padded]
        cached = [each for layer in layers for each in (layer.keys, layer.values)]
        logits, *hidden = self._stack(x, cos, sin, attention_mask, slots, cached)
        hidden = [each[:, :rows] for each in hidden] if output_hidden_states else []
        return Output(logits[:, :rows][:, -logits_to_keep:], tuple(hidden))


class _Stack(torch.nn.Module):
    """All layers, the norm and the head as one function of tensors; the parameters become constants when compiled."""

    def __init__(self, weights: list[Weights], norm: Tensor, head: Tensor, heads: tuple[int, int], eps: float) -> None:
        super().__init__()
        flat = [weight for layer in weights for weight in layer if weight is not None] + [norm, head]
        self._flat = torch.nn.ParameterList([torch.nn.Parameter(weight, requires_grad=False) for weight in flat])
        self._layers, (self._heads, self._kv_heads), self._eps = len(weights), heads, eps

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor, slots: Tensor, cached: list[Tensor]
    ) -> tuple[Tensor, ...]:
        """Logits [1, T, V], the input of each layer [1, T, hidden], and the output of the final norm."""
        inputs = []
        for layer in range(self._layers):
            inputs.append(x)
            norm, qkv, out, mlp_norm, gate_up, down = self._flat[6 * layer : 6 * layer + 6]
            cache = cached[2 * layer], cached[2 * layer + 1]
            x = x + F.linear(self._attention(F.linear(self._normed(x, norm), qkv), cos, sin, mask, slots, cache), out)
            gate, up = F.linear(self._normed(x, mlp_norm), gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, down)
        normed = self._normed(x, self._flat[-2])
        return F.linear(normed, self._flat[-1]), *inputs, normed

    def _attention(
        self, qkv: Tensor, cos: Tensor, sin: Tensor, mask: Tensor, slots: Tensor, cache: tuple[Tensor, Tensor]
    ) -> Tensor:
        (rows, width), (keys, values), columns = (qkv.shape[1], cache[0].shape[3]), cache, mask.shape[3]
        rotary = self._heads + self._kv_heads
        qkv = qkv.view(1, rows, rotary + self._kv_heads, width)
        rotated = qkv[:, :, :rotary]
        rotated = rotated * cos + rotated.roll(width // 2, -1) * sin
        keys.index_copy_(2, slots, rotated[:, :, self._heads :].transpose(1, 2))
        values.index_copy_(2, slots, qkv[:, :, rotary:].transpose(1, 2))
        query, keys, values = rotated[:, :, : self._heads].transpose(1, 2), keys[:, :, :columns], values[:, :, :columns]
        mixed = F.scaled_dot_product_attention(query, keys, values, mask, enable_gqa=True)
        return mixed.transpose(1, 2).reshape(1, rows, -1)

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self._eps)


def compile_if_faster(model: Any) -> str:
    """Compiles the forward of `model` (a `Model`) and keeps it if it is faster; returns the outcome as a sentence."""
    if isinstance(model.run, NativeDecoder):
        return f"'{model.name}' was not compiled by torch: it runs as a program that numba compiled."
    if not isinstance(model.run, LeanLlama) or model.parameters > MOST_PACKED:
        return f"'{model.name}' was not compiled: only small Llama-shaped models on a CPU can be."
    if any(each is not None for each in model.run._weights[0].extras):
        return f"'{model.name}' was not compiled: its attention has biases or norms of heads."
    if compiler() is None:
        return f"'{model.name}' was not compiled: there is no C++ compiler; install g++ or clang++."
    lean = model.run
    try:
        fast = CompiledLlama(lean, model.network)
    except RuntimeError as error:
        return f"'{model.name}' was not compiled: {error}."
    before, after = _timed(model, lean, fast)
    if after >= before:
        model.run = lean
        return f"'{model.name}' was compiled: no speedup ({before:.2f} to {after:.2f} ms); kept eager."
    model.run = fast
    return f"'{model.name}' was compiled: {before / after:.2f} times as fast ({before:.2f} to {after:.2f} ms)."


def _timed(model: Any, *runs: LeanLlama) -> list[float]:
    """Median milliseconds of a verify forward by each of `runs`, in turn; the mean of one row and of five."""
    cache = model.cache(1, EXAMPLE[2])
    model.read(cache, [[1] * (EXAMPLE[1] - VECTOR)])
    length = cache.table.length
    times: list[list[float]] = [[] for _ in runs]
    for trial in range(TRIALS):
        for run, taken in zip(runs, times, strict=True):
            model.run, spent = run, 0.0
            for rows in (1, 5):
                cache.table.commit(length, int(length[0]))
                began = perf_counter()
                model.forward(cache, torch.ones((1, rows), dtype=torch.long), torch.arange(rows)[None])
                spent += (perf_counter() - began) * 1e3 / 2
            if trial:
                taken.append(spent)
    return [statistics.median(taken) for taken in times]
