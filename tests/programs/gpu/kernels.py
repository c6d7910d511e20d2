"""What torch's profiler and clocks say of single rounds and of attention alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.profiler import profile, supported_activities
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from draftscope.base.steps import last
from draftscope.decode.calibration import interleaved
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.models.cache.masks import Reach, attention_mask, with_common
from draftscope.models.cache.slots import WIDE, SlotTable
from draftscope.models.forward.attention import attend, way_of
from tests.programs.gpu.sections import PROMPT, GpuRow, until

# CUDA's calls by what they mean for the host: it stops, it copies, it starts a kernel, it starts a graph.
CALLS = {
    "waits": ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize"),
    "copies": ("cudaMemcpyAsync", "cudaMemcpy"),
    "launches": ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx"),
    "replays": ("cudaGraphLaunch",),
}
HEADS, KEY_HEADS, WIDTH = 32, 8, 128  # of Llama-3.1-8B
ROWS = (1, 5)
REPEATS = 15


def waits(engine: DecodingEngine, names: Sequence[str], tokens: int, end: float) -> Iterator[GpuRow]:
    """Calls of CUDA per round of a sampled run, without its prefill, after a run that records the graphs."""
    prompt = engine.encode(PROMPT, tokens)
    for name in until(end, names):
        settings = Settings.of(drafter=name, gamma=4, temperature=0.8, top_k=40, top_p=0.9, max_new_tokens=tokens)
        for _ in engine.start_batch([prompt], settings, (0,), ends=False).steps():
            pass
        session = engine.start_batch([prompt], settings, (0,), ends=False)
        session.prefill()
        with profile(activities=supported_activities()) as profiled:  # type: ignore[no-untyped-call]
            rounds = sum(1 for _ in session.steps())
        calls = {event.key: event.count for event in profiled.key_averages()}
        counts = {what: sum(calls.get(key, 0) for key in keys) / rounds for what, keys in CALLS.items()}
        yield {"drafter": name, "rounds": rounds, **{f"{what} a round": count for what, count in counts.items()}}


def attention(device: torch.device, dtype: torch.dtype, contexts: Sequence[int], end: float) -> Iterator[GpuRow]:
    """One layer of an 8B model: transformers' attention, ours in one masked part, and ours as chosen, in turn."""
    for context, rows in until(end, list(product(contexts, ROWS))):
        query, keys, values, mask = _layer(device, dtype, context, rows)
        works: list[Callable[[], object]] = [
            partial(_by_transformers, query, keys, values, mask),
            partial(attend, query, keys, values, with_common(mask, 0)),
            partial(attend, query, keys, values, mask),
        ]
        by_transformers, masked, chosen = (ms for ms, _ in last(interleaved(works, device, REPEATS)))
        read = (keys.numel() + values.numel()) * keys.element_size()
        yield {
            "context": context, "rows": rows, "transformers ms": by_transformers, "one part ms": masked,
            "chosen ms": chosen, "chosen": way_of(query, keys, values, mask), "GB/s": read / chosen / 1e6,
        }  # fmt: skip


def _layer(device: torch.device, dtype: torch.dtype, context: int, rows: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Query, keys, values and mask of a chain after a text."""
    table = SlotTable(1, -(-(context + rows) // WIDE) * WIDE, device, WIDE)
    table.commit(torch.full((1,), context, device=device), context, even=True, least=context)
    table.begin_write(torch.arange(rows, device=device)[None])
    table.widen()
    mask = attention_mask(table, Reach(), None, None)
    assert isinstance(mask, Tensor)
    query = torch.randn(1, HEADS, rows, WIDTH, device=device, dtype=dtype)
    keys, values = torch.randn(2, 1, KEY_HEADS, table.view, WIDTH, device=device, dtype=dtype)
    return query, keys, values, mask


def _by_transformers(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> object:
    module: Any = SimpleNamespace(num_key_value_groups=HEADS // KEY_HEADS, is_causal=True)
    return sdpa_attention_forward(module, query, keys, values, mask)
