"""One training run: takes steps until the budget is spent, and can be interrupted at any step.

Only time spent in steps counts, each step capped at a few times the median, so a laptop that slept or a paused process
loses nothing. On SIGINT, SIGTERM or the end of a sitting the run finishes the current step, saves and returns. The same
command continues from there and reaches the same weights as an uninterrupted run.
"""

from __future__ import annotations

import math
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import torch
from tqdm import tqdm

from draftscope.base.errors import DraftscopeError
from draftscope.models.heads.lessons import Lesson
from draftscope.train.fit.numerics import Optimizers, Recipe, compiled, mixed, schedule
from draftscope.train.fit.training_texts import TextSource

SAVED = {"fingerprint", "progress", "model", "optimizers"}
SAVE_EVERY = 300.0  # seconds spent in steps between two saved states
STALL = 4.0  # a step counts at most this many times the median
REHEARSED = (0, 7)  # one step for each row length, run before the clock starts because it compiles


@dataclass
class TrainingProgress:
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
    """What determines a run, apart from its lesson. `folder` is that of its state; `seen` are the tokens that the
    initial weights were trained on; a saved state must have the same `fingerprint`."""

    folder: Path
    budget: Budget
    recipe: Recipe
    fingerprint: str
    seen: int

    def share(self, progress: TrainingProgress) -> float:
        """The share of the budget that is spent; 1 at its end."""
        now = progress.step * self.recipe.tokens_per_step
        before = progress.tokens - now
        return max(progress.spent / self.budget.seconds, now / max(1, self.budget.tokens - before))

    def overall(self, progress: TrainingProgress) -> float:
        """The share of all tokens that the weights will have read at the end, including those read before this run."""
        share, now = self.share(progress), progress.step * self.recipe.tokens_per_step
        before = progress.tokens - now
        return share * (before + now) / (share * before + now) if now else 0.0


@dataclass(frozen=True)
class Fitted:
    """A run that ended, `done` if its budget is spent. Its lesson has the trained student."""

    lesson: Lesson
    source: TextSource
    recipe: Recipe
    progress: TrainingProgress
    done: bool


def fit(lesson: Lesson, source: TextSource, recipe: Recipe, budget: Budget, folder: Path) -> Fitted:
    """Trains `lesson.student` in place on `source` within `budget`, from the state saved in `folder` if there is one.

    Raises `DraftscopeError` for a saved state of another seed, text or target.
    """
    run = TrainingRun(folder, budget, recipe, source.fingerprint, source.seen)
    student, optimizers = lesson.student, Optimizers(lesson.student, recipe.rates)
    backward = _backward(lesson, source)
    progress = _restore(run, student, optimizers)
    student.train()
    saved_at, clock = progress.spent, budget.clock
    with interruptible() as interrupted, _bar(run, progress) as bar:
        if run.share(progress) < 1:
            _rehearse(student, backward)
        while run.share(progress) < 1 and not interrupted() and time.monotonic() < budget.deadline:
            began = clock()
            loss = backward(progress.step)
            torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
            optimizers.step(schedule(run.share(progress), run.overall(progress)))
            progress.count(clock() - began, recipe.tokens_per_step)
            bar.set_postfix_str(_status(run, progress, loss), refresh=False)
            bar.update(_elapsed(run, progress) - bar.n)
            if progress.spent - saved_at >= SAVE_EVERY:
                saved_at = progress.spent
                _save(run, student, optimizers, progress)
                tqdm.write(f"{progress.tokens / 1e6:.2f}M tokens, {source.progress()}")
                student.train()
    _save(run, student, optimizers, progress)
    student.eval()
    return Fitted(lesson, source, recipe, progress, run.share(progress) >= 1)


def _backward(lesson: Lesson, source: TextSource) -> Callable[[int], float]:
    """Computes the gradients of a step and returns its loss."""
    loss_of = compiled(lesson.loss) if source.fixed_shapes else lesson.loss

    def backward(step: int) -> float:
        output = source.step(step)
        with mixed(output.ids.device):
            loss = loss_of(output)
        torch.autograd.backward(loss)
        return loss.item()

    return backward


def _rehearse(student: torch.nn.Module, backward: Callable[[int], float]) -> None:
    for step in REHEARSED:
        backward(step)
    student.zero_grad(set_to_none=True)


def _bar(run: TrainingRun, progress: TrainingProgress) -> tqdm[NoReturn]:
    return tqdm(
        total=round(run.budget.seconds),
        initial=_elapsed(run, progress),
        desc=run.folder.name,
        bar_format="{desc} {percentage:3.0f}% |{bar}| {n}/{total} s{postfix}",
        mininterval=5,
    )


def _elapsed(run: TrainingRun, progress: TrainingProgress) -> int:
    return round(min(1.0, run.share(progress)) * run.budget.seconds)


def started(folder: Path) -> bool:
    """Whether `folder` contains the saved state of a run."""
    return (folder / "state.pt").exists()


def _status(run: TrainingRun, progress: TrainingProgress, loss: float) -> str:
    left = max(0.0, run.budget.seconds - progress.spent) / 60
    rate = run.recipe.tokens_per_step / statistics.median(progress.durations)
    return f"step {progress.step} loss {loss:.3f} {rate:.0f} tokens/s {left:.1f} min left"


def _save(run: TrainingRun, model: torch.nn.Module, optimizers: Optimizers, progress: TrainingProgress) -> None:
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


def _restore(run: TrainingRun, model: torch.nn.Module, optimizers: Optimizers) -> TrainingProgress:
    if not started(run.folder):
        return TrainingProgress(tokens=run.seen)
    state = read_state(run.folder / "state.pt")
    if state["fingerprint"] != run.fingerprint:
        raise DraftscopeError(
            f"'{run.folder}' contains a run with another seed, text or target: move it away to start a new one."
        )
    try:
        model.load_state_dict(state["model"])
        optimizers.restore(state["optimizers"])
        progress = TrainingProgress(**state["progress"])
    except (RuntimeError, ValueError, TypeError, KeyError, AttributeError, IndexError):
        raise _damaged(run.folder / "state.pt") from None
    if run.share(progress) >= 1:
        minutes = run.budget.seconds / 60
        print(
            f"'{run.folder}' has used its {minutes:g} minutes: raise --minutes, or move the folder away to start a new "
            "run."
        )
    return progress


def read_state(path: Path) -> dict[str, Any]:
    """What a training run has saved; nothing in the file is run. Raises `DraftscopeError` for anything else."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # of many kinds: the file may be a pickle of anything, or cut off
        raise _damaged(path) from None
    if not isinstance(state, dict) or not state.keys() >= SAVED:
        raise _damaged(path)
    return state


def _damaged(path: Path) -> DraftscopeError:
    return DraftscopeError(
        f"'{path}' is not what a training run saves, or is damaged; move the folder away to start a new run."
    )


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
