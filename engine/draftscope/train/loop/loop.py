"""One training run: takes steps until the budget is spent, and can be interrupted at any step.

Only time spent in steps counts, each step capped at a few times the median, so a laptop that slept or a paused process
loses nothing. On SIGINT, SIGTERM or the end of a sitting the run finishes the current step, saves and returns. The same
command continues from there and reaches the same weights as an uninterrupted run.
"""

from __future__ import annotations

import hashlib
import math
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import torch
from tqdm import tqdm

from draftscope.base.errors import DraftscopeError
from draftscope.train.data.corpus import Domain
from draftscope.train.loop.optimizers import Optimizers, Rates, schedule

SAVE_EVERY = 300.0  # seconds spent in steps between two saved states
STALL = 4.0  # a step counts at most this many times the median
REHEARSED = (0, 7)  # one step for each row length, run before the clock starts because it compiles


@dataclass
class Progress:
    """How far a run has come; saved with the weights."""

    step: int = 0
    tokens: int = 0
    spent: float = 0.0  # seconds in steps
    durations: list[float] = field(default_factory=list)  # of the latest steps, for the median

    def count(self, duration: float, tokens: int) -> None:
        if len(self.durations) >= 5:
            duration = min(duration, STALL * statistics.median(self.durations))
        self.durations = [*self.durations[-30:], duration]
        self.step += 1
        self.tokens += tokens
        self.spent += duration


@dataclass(frozen=True)
class Budget:
    """The time and tokens a run may spend; it ends when either is used up. Tests pass their own clock."""

    seconds: float  # in steps, over all sittings
    tokens: int = 1 << 62  # in all, including those the initial weights were trained on
    deadline: float = math.inf  # end of this sitting in terms of time.monotonic(); a later sitting continues
    clock: Callable[[], float] = time.perf_counter


@dataclass(frozen=True)
class TrainingRun:
    """What the loop needs to know about a run, apart from the model."""

    folder: Path
    budget: Budget
    rates: Rates
    tokens_per_step: int
    fingerprint: str  # of everything but time that determines the weights; a saved state must have the same
    seen: int  # tokens that the initial weights were trained on

    def share(self, progress: Progress) -> float:
        """The share of the budget that is spent; 1 at its end."""
        read = progress.step * self.tokens_per_step
        before = progress.tokens - read
        return max(progress.spent / self.budget.seconds, read / max(1, self.budget.tokens - before))

    def overall(self, progress: Progress) -> float:
        """The share of all tokens that the weights will have read at the end, including those read before this run."""
        share, read = self.share(progress), progress.step * self.tokens_per_step
        before = progress.tokens - read
        return share * (before + read) / (share * before + read) if read else 0.0


def train(
    run: TrainingRun, model: torch.nn.Module, backward: Callable[[int], float], check: Callable[[Progress], None]
) -> tuple[Progress, bool]:
    """Trains `model` in place; returns the progress and whether the budget is spent.

    `backward(step)` computes the gradients and returns the loss; `check(progress)` is called whenever the state was
    saved.
    """
    optimizers = Optimizers(model, run.rates)
    progress = _restore(run, model, optimizers)
    saved_at, clock = progress.spent, run.budget.clock
    with interruptible() as interrupted, _bar(run, progress) as bar:
        if run.share(progress) < 1:
            _rehearse(model, backward)
        while run.share(progress) < 1 and not interrupted() and time.monotonic() < run.budget.deadline:
            began = clock()
            loss = backward(progress.step)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizers.step(schedule(run.share(progress), run.overall(progress)))
            progress.count(clock() - began, run.tokens_per_step)
            bar.set_postfix_str(_status(run, progress, loss), refresh=False)
            bar.update(_elapsed(run, progress) - bar.n)
            if progress.spent - saved_at >= SAVE_EVERY:
                saved_at = progress.spent
                _save(run, model, optimizers, progress)
                check(progress)
    _save(run, model, optimizers, progress)
    return progress, run.share(progress) >= 1


def _rehearse(model: torch.nn.Module, backward: Callable[[int], float]) -> None:
    for step in REHEARSED:
        backward(step)
    model.zero_grad(set_to_none=True)


def _bar(run: TrainingRun, progress: Progress) -> tqdm[NoReturn]:
    return tqdm(
        total=round(run.budget.seconds),
        initial=_elapsed(run, progress),
        desc=run.folder.name,
        bar_format="{desc} {percentage:3.0f}% |{bar}| {n}/{total} s{postfix}",
        mininterval=5,
    )


def _elapsed(run: TrainingRun, progress: Progress) -> int:
    return round(min(1.0, run.share(progress)) * run.budget.seconds)


def fingerprint(seed: int, domains: list[Domain], *models: torch.nn.Module) -> str:
    """Digest of everything but time that determines the weights: the seed, the text and the given models."""
    digest = hashlib.sha256(str(seed).encode())
    for domain in domains:
        digest.update(domain.name.encode() + domain.tokens.tobytes())
    for model in models:
        for name, weight in model.state_dict().items():
            digest.update(name.encode() + str(tuple(weight.shape)).encode() + _bytes(weight))
    return digest.hexdigest()[:16]


def _bytes(weight: torch.Tensor) -> bytes:
    """The values of a tensor of any dtype; numpy has no bfloat16."""
    return weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()


def started(folder: Path) -> bool:
    """Whether `folder` contains the saved state of a run."""
    return (folder / "state.pt").exists()


def _status(run: TrainingRun, progress: Progress, loss: float) -> str:
    left = max(0.0, run.budget.seconds - progress.spent) / 60
    rate = run.tokens_per_step / statistics.median(progress.durations)
    return f"step {progress.step} loss {loss:.3f} {rate:.0f} tokens/s {left:.1f} min left"


def _save(run: TrainingRun, model: torch.nn.Module, optimizers: Optimizers, progress: Progress) -> None:
    run.folder.mkdir(parents=True, exist_ok=True)
    partial = run.folder / "state.partial"
    state = {
        "fingerprint": run.fingerprint,
        "progress": vars(progress),
        "model": model.state_dict(),
        "optimizers": optimizers.state(),
    }
    torch.save(state, partial)
    os.replace(partial, run.folder / "state.pt")


def _restore(run: TrainingRun, model: torch.nn.Module, optimizers: Optimizers) -> Progress:
    if not started(run.folder):
        return Progress(tokens=run.seen)
    state = torch.load(run.folder / "state.pt", map_location="cpu", weights_only=True)
    if state["fingerprint"] != run.fingerprint:
        raise DraftscopeError(
            f"{run.folder} contains a run with another seed, text or target: move it away to start a new one."
        )
    model.load_state_dict(state["model"])
    optimizers.restore(state["optimizers"])
    progress = Progress(**state["progress"])
    if run.share(progress) >= 1:
        minutes = run.budget.seconds / 60
        print(
            f"{run.folder} has used its {minutes:g} minutes: raise --minutes, or move the folder away to start a new "
            "run."
        )
    return progress


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Catches SIGINT and SIGTERM; yields a function that tells whether one has arrived."""
    received: list[int] = []
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda number, _: received.append(number)) for number in signals]
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
