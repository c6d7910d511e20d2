"""A drafter's training: every step one lesson from the frozen target.

Forward KL at temperature 1 over the vocabulary, p the target and q the drafter: on every
position the drafter is told all probabilities, not the one token that happened to
follow. One step in eight reads text that the target wrote itself.

Half the target's tokens a step: models this small gain more from twice the steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from draftscope.train.data.batches import Batches
from draftscope.train.data.corpus import ROW, Texts
from draftscope.train.data.samples import sampled_rows
from draftscope.train.loop import loop
from draftscope.train.loop.compiling import Loss
from draftscope.train.loop.lesson import Lesson
from draftscope.train.loop.optimizers import Rates
from draftscope.train.loop.precision import mixed
from draftscope.train.loop.pretrain import Recipe, row_length
from draftscope.train.publish.evaluate import agreements

DRAFT = Recipe(Rates(matrices=4e-3, rest=1e-2), tokens_per_step=4096, samples=256)


@dataclass(frozen=True)
class Places:
    """Where a run keeps its state, and where the target's own text lies: several runs may share that."""

    state: Path
    samples: Path


def distill(
    lesson: Lesson,
    texts: Texts,
    places: Places,
    budget: loop.Budget,
    seed: int,
    seen: int = 0,
    recipe: Recipe = DRAFT,
    loss_of: Loss | None = None,
) -> tuple[loop.Progress, bool]:
    """Train `lesson.student` in place within `budget`; returns the progress and whether it is done.

    `seen` counts the tokens behind the weights the student comes with, which now reads other text; `loss_of` is a
    faster `lesson.loss`.
    """
    written = _written(lesson, texts, places, seed, recipe)
    batches = Batches(texts.train, seed + seen, recipe.tokens_per_step)
    take = loss_of or lesson.loss

    def backward(step: int) -> float:
        ids = _inputs(batches, written, step, recipe.tokens_per_step)
        drawn = lesson.draw(ids, torch.Generator().manual_seed(seed + 1_000_003 * step))
        place = lesson.target.device
        with mixed(place):
            loss = take(ids.to(place), None if drawn is None else drawn.to(place))
        torch.autograd.backward(loss)
        return loss.item()

    def check(progress: loop.Progress) -> None:
        short = agreements(lesson, texts.val, 8)
        lesson.student.train()
        found = ", ".join(f"{name} {value.shown()}" for name, value in short.items())
        tqdm.write(f"{progress.tokens / 1e6:.2f}M tokens, alpha at T=1 by depth (quick): {found}")

    lesson.student.train()
    fingerprint = loop.fingerprint(seed + seen, texts.train, lesson.target)
    run = loop.Run(places.state, budget, recipe.rates, recipe.tokens_per_step, fingerprint, seen)
    return loop.train(run, lesson.student, backward, check)


def _written(lesson: Lesson, texts: Texts, places: Places, seed: int, recipe: Recipe) -> Tensor:
    """Text by the target, [recipe.samples, ROW + 1]: the same for all that learn from it."""
    kept = places.samples / f"samples.{loop.fingerprint(seed, texts.train, lesson.target)}.{recipe.samples}.pt"
    batches = Batches(texts.train, seed, recipe.tokens_per_step)
    return sampled_rows(lesson.target, batches, recipe.samples, ROW, seed, kept)


def _inputs(batches: Batches, written: Tensor, step: int, tokens: int) -> Tensor:
    """This step's text, [rows, length]: the corpus, or every eighth time the target's own, where there is some."""
    if step % 8 != 3 or not len(written):
        return batches.rows(step, row_length(step))[0]
    rows = tokens // ROW
    return written[(torch.arange(rows) + step // 8 * rows) % len(written), :-1]
