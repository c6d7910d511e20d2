"""Trains a drafter on its target's answers: the loop, the lessons and the optimizers of the embedded family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from draftscope.train.answers.data import PER_KIND, AnswerBatches, by_kind
from draftscope.train.answers.shards import Answer
from draftscope.train.answers.teaching import Teacher
from draftscope.train.loop import loop
from draftscope.train.loop.evaluate import Agreement, agreement_on
from draftscope.train.loop.lesson import Lesson
from draftscope.train.loop.precision import mixed
from draftscope.train.loop.pretrain import Recipe


@dataclass(frozen=True)
class Study:
    """What a drafter learns from: answers to train on, held-out ones, and how."""

    train: Sequence[Answer]
    held: Sequence[Answer]
    recipe: Recipe
    seed: int


def learn(
    lesson: Lesson, teacher: Teacher, study: Study, folder: Path, budget: loop.Budget, about: str
) -> tuple[loop.Progress, bool]:
    """Trains `lesson.student` in place within `budget`; returns the progress and whether it is done.

    `about` is a digest of what a saved state in `folder` must agree with. More answers may have come since it was
    saved: training then goes on with all of them.
    """
    batches = AnswerBatches(study.train, study.seed, study.recipe.tokens_per_step)

    def backward(step: int) -> float:
        answers = batches.step(step)
        rows = torch.zeros(len(answers), max(len(answer.ids) for answer in answers), dtype=torch.long)
        drawn = lesson.draw(rows, torch.Generator().manual_seed(study.seed + 1_000_003 * step))
        output = teacher.log_probabilities(answers, drawn)
        with mixed(output.ids.device):
            loss = lesson.loss_of(output)
        torch.autograd.backward(loss)
        return loss.item()

    def check(progress: loop.Progress) -> None:
        groups = by_kind(study.held, PER_KIND)
        found = {kind: agreement(lesson, teacher, answers).shown() for kind, answers in groups.items()}
        lesson.student.train()
        alphas = ", ".join(f"{kind} {shown}" for kind, shown in found.items())
        tqdm.write(f"{progress.tokens / 1e6:.2f}M tokens, held-out alpha at T=1 by depth: {alphas}")

    lesson.student.train()
    run = loop.TrainingRun(folder, budget, study.recipe.rates, study.recipe.tokens_per_step, about, 0)
    return loop.train(run, lesson.student, backward, check)


def agreement(lesson: Lesson, teacher: Teacher, answers: Sequence[Answer]) -> Agreement:
    """Acceptance and greedy agreement by depth, on held-out answers."""
    lesson.student.eval()
    return agreement_on(lesson, teacher.probabilities(answers))
