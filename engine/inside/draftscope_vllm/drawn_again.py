"""The random numbers that vLLM's V2 runner compares p/q with. It draws them inside a kernel, by seed and position, and
keeps none: its own function draws the same ones again."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from vllm.triton_utils import tl, triton
from vllm.v1.worker.gpu.sample.gumbel import tl_rand32


@triton.jit  # type: ignore[untyped-decorator]
def _draw(u: Any, seeds: Any, requests: Any, positions: Any):  # type: ignore[no-untyped-def]
    row = tl.program_id(0)
    seed = tl.load(seeds + tl.load(requests + row))
    tl.store(u + row, tl_rand32(seed, tl.load(positions + row), includes_zero=False))


def uniforms(seeds: Tensor, requests: Tensor, positions: Tensor) -> Tensor:
    """[R] of the seeds of all requests, and of the request and the position of each row."""
    u = seeds.new_empty(len(positions), dtype=torch.float32)
    _draw[(len(positions),)](u, seeds, requests, positions)
    return u
