"""How training computes: matmuls in bf16, or in fp32 on CPUs where that is faster; compiled if there is a compiler;
Muon for the matrices between hidden states, AdamW for the rest, one schedule for both.

Muon is torch's implementation, with its rate scaled to the size of AdamW's updates, so that rates of similar size fit
both.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TypeVar, cast

import torch

from draftscope.models.head_kinds import Rates
from draftscope.models.loading.devices import fastest_dtype

Function = TypeVar("Function", bound=Callable[..., object])

WARM_UP, DECAY = 0.02, 0.30  # shares of the budget
ROWS = 256  # of the timed matmuls: enough rows to be limited by arithmetic, not by reading the weights


@cache
def precision(kind: str) -> torch.dtype:
    """bfloat16 on a GPU, the fastest dtype on a CPU; measured once."""
    return fastest_dtype(ROWS) if kind == "cpu" else torch.bfloat16


@contextmanager
def mixed(device: torch.device) -> Iterator[None]:
    """Autocast: weights stay in fp32, matmuls run in `precision`.

    A norm of 16-bit rows with 32-bit weights is not fused. torch warns of that, and it is meant here.
    """
    dtype = precision(device.type)
    with warnings.catch_warnings(), torch.autocast(device.type, torch.bfloat16, enabled=dtype is torch.bfloat16):
        warnings.filterwarnings("ignore", "Mismatch dtype between input and weight")
        yield


def compiled(function: Function) -> Function:
    """`function` by `torch.compile`, or unchanged if there is no C++ compiler.

    Resets torch's compiler first, so that training many members does not exceed its limit of recompilations.
    """
    if not _has_compiler():
        return function
    torch.compiler.reset()
    return cast(Function, torch.compile(function, dynamic=False))


@cache
def _has_compiler() -> bool:
    """Whether there is a C++ compiler; says it once if there is none."""
    if shutil.which("g++") or shutil.which("clang++"):
        return True
    print("No C++ compiler found: training without torch.compile, at about half the speed.")
    return False


@dataclass(frozen=True)
class Recipe:
    """The hyperparameters of a run. `samples` is the number of target-generated rows that a drafter trains on.

    Digests of finished runs cover its `repr`: what is renamed here makes them look unfinished.
    """

    rates: Rates
    tokens_per_step: int
    samples: int = 0


class Optimizers:
    """Both optimizers behind one `step`."""

    def __init__(self, model: torch.nn.Module, rates: Rates) -> None:
        named = list(model.named_parameters())
        matrices = [w for name, w in named if _between_hidden(name, w)]
        rest = [w for name, w in named if not _between_hidden(name, w)]
        self._rates = (rates.matrices, rates.rest)
        self._both: tuple[torch.optim.Optimizer, ...] = (
            torch.optim.Muon(matrices, lr=rates.matrices, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(rest, lr=rates.rest, betas=(0.9, 0.95), weight_decay=0.0),
        )

    def step(self, factor: float) -> None:
        """Applies the gradients at `factor` times the peak rates, then clears them."""
        for optimizer, rate in zip(self._both, self._rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def state(self) -> list[dict[str, object]]:
        return [optimizer.state_dict() for optimizer in self._both]

    def restore(self, state: list[dict[str, object]]) -> None:
        for optimizer, saved in zip(self._both, state, strict=True):
            optimizer.load_state_dict(saved)


def _between_hidden(name: str, weight: torch.Tensor) -> bool:
    """Whether `weight` is a matrix other than those that have one row per token."""
    return weight.ndim == 2 and not any(part in name for part in ("embed", "lm_head", "markov"))


def schedule(share: float, overall: float) -> float:
    """The factor on the peak rates when `share` in [0, 1] of a run is done: warm up, hold, then decay to zero.

    `overall` is the share of all tokens that the weights will have read; it controls the decay. Already trained weights
    thus continue at the rate that a single long run would have, since a full rate undoes more than a short run
    relearns. Unlike with a cosine schedule, extending the budget of an interrupted run before the decay does not affect
    the steps already taken.
    """
    return min(1.0, (share + 0.001) / WARM_UP, max(0.0, 1.0 - overall) / DECAY)
