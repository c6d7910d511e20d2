"""`draftscope train-drafter`: trains a drafter for any target on the target's own answers.

The target first answers prompts; then the drafter learns from the answers; then it is published with its figures.
Every part goes on where it stopped, so the same command continues an interrupted run, and a larger `minutes` or
`tokens` continues a finished one.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shutil import copyfile, rmtree
from typing import Any

import torch

from draftscope.base import prompts as prompt_files
from draftscope.base.errors import DraftscopeError
from draftscope.base.prompts import Prompt
from draftscope.decode.lab import Lab
from draftscope.decode.load import load
from draftscope.models.heads import Head, save_head
from draftscope.models.loading.embedded import RECORD
from draftscope.train.answers import data, learning, prompts, shards, writing
from draftscope.train.answers.collecting import collect
from draftscope.train.answers.learning import Study
from draftscope.train.answers.shards import Answer
from draftscope.train.answers.teaching import Teacher
from draftscope.train.answers.writing import Asked, WritingPlan
from draftscope.train.data.credits import Source, sources
from draftscope.train.loop import loop
from draftscope.train.loop.evaluate import Agreement
from draftscope.train.loop.lesson import Lesson
from draftscope.train.loop.precision import precision
from draftscope.train.publish import drafter_card
from draftscope.train.publish.drafter_card import DrafterRecord
from draftscope.train.publish.finish import hardware
from draftscope.train.publish.trial import GAMMAS, Trial, trials
from draftscope.train.students.any_target import KINDS, PRESETS, DrafterPreset, first_student
from draftscope.train.students.shapes import parameters
from draftscope.train.students.students import lesson

MEASURED = 48  # held-out answers of one kind, at most, in the published figures
TRIED = 1  # held-out prompts of one kind that are decoded


@dataclass(frozen=True)
class DrafterTraining:
    """A request to train a drafter of `kind` for `target`. None stands for the preset's value.

    Prompts come from a file, from the documents in a folder, or are those written for training.
    """

    target: str
    kind: str
    out: Path
    work: Path
    prompts: Path | None = None
    text: Path | None = None
    preset: str = "cpu"
    tokens: int | None = None  # of the target's answers
    minutes: float | None = None  # in training steps, over all sittings
    sitting: float | None = None  # minutes after which to stop, to go on later
    seed: int = 0
    threads: int = 1

    @cached_property
    def settings(self) -> DrafterPreset:
        return PRESETS[self.preset]

    def refuse(self) -> None:
        """Raises `DraftscopeError` for what can be known before a model is loaded."""
        if self.kind not in KINDS:
            raise DraftscopeError(f"--kind {self.kind}: choose from {', '.join(KINDS)}.")
        for name in ("tokens", "minutes", "sitting"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise DraftscopeError(f"--{name} {value:g} leaves nothing to train: give a positive number.")
        if self.settings.device == "cuda" and not torch.cuda.is_available():
            raise DraftscopeError("--preset gpu needs a CUDA device and there is none; choose --preset cpu.")
        if self.out.exists() and not (self.out / RECORD).exists() and any(self.out.iterdir()):
            raise DraftscopeError(f"{self.out} holds other files: name a new folder, or one made by this command.")


def train_drafter(asked: DrafterTraining) -> bool:
    """Whether training is finished; if False, the same command continues. What there is is published either way,
    unless the target is still writing. Raises `DraftscopeError` for unusable values, prompts and folders."""
    asked.refuse()
    began = time.monotonic()
    requests = _prompts(asked)  # before the target is loaded
    torch.set_num_threads(asked.threads)
    dtype = str(precision(asked.settings.device)).removeprefix("torch.")
    with load(asked.target, device=asked.settings.device, dtype=dtype, threads=asked.threads, graphs=False) as lab:
        return _train(asked, lab, requests, began)


def _train(asked: DrafterTraining, lab: Lab, requests: list[Prompt], began: float) -> bool:
    preset, network = asked.settings, lab.target.network
    layers = writing.feature_layers(lab.target.layers)
    plan = WritingPlan(
        tokens=asked.tokens or preset.answers,
        longest=preset.longest,
        together=preset.together,
        layers=layers if preset.keeps_features else (),
        seed=asked.seed,
    )
    to_answer = writing.asked(requests, lab.tokenizer)
    about = f"{lab.target.digest or loop.fingerprint(0, [], network)}.{asked.seed}"
    folder = asked.work / f"answers.{_digest(about, to_answer)}"
    sitting = asked.sitting or preset.sitting or math.inf
    deadline = began + sitting * 60
    with loop.interruptible() as interrupted:
        done = collect(lab, to_answer, folder, plan, lambda: interrupted() or time.monotonic() > deadline)
    if not done:
        print(f"Stopped while the target was writing; its answers are in {folder}. Run the same command to continue.")
        return False
    train, held = data.load(folder, layers)
    student = first_student(asked.kind, network, train, to_answer, asked.seed)
    one = lesson(network, student)
    teacher = Teacher(one, layers)
    study = Study(train, held, preset.recipe(asked.kind), asked.seed)
    budget = loop.Budget((asked.minutes or preset.minutes) * 60, deadline=deadline)
    state = asked.work / f"{asked.kind}.{about}"
    progress, done = learning.learn(one, teacher, study, state, budget, f"{asked.kind} {about}")
    if progress.step:
        _publish(asked, lab, one, teacher, study, progress, _tried(requests, lab) if done else [])
    if not done:
        print(f"Stopped at step {progress.step}; saved in {state}. Run the same command to continue.")
    return done


def _digest(about: str, asked: Sequence[Asked]) -> str:
    """A digest of the target and of the prompts."""
    digest = hashlib.sha256(about.encode())
    for each in asked:
        digest.update(repr(each).encode())
    return digest.hexdigest()[:16]


def _prompts(asked: DrafterTraining) -> list[Prompt]:
    found: list[Prompt] = []
    if asked.prompts is not None:
        read, notes = prompt_files.read(asked.prompts)
        found += read
        for note in notes:
            print(note)
    if asked.text is not None:
        found += prompts.of_text(asked.text)
    if asked.prompts is None:
        found += prompts.written(asked.seed)
    return prompts.mixed(found, asked.seed)


def _tried(requests: Sequence[Prompt], lab: Lab) -> list[Prompt]:
    """`TRIED` prompts of each kind whose answers are held out."""
    count: Counter[str] = Counter()
    found = []
    for prompt in requests:
        if count[prompt.kind] < TRIED and shards.is_held_out(lab.encode(prompt.text)):
            count[prompt.kind] += 1
            found.append(prompt)
    return found


def _sources(asked: DrafterTraining) -> list[Source]:
    return sources(asked.text) if asked.text is not None else []


def _publish(
    asked: DrafterTraining,
    lab: Lab,
    one: Lesson,
    teacher: Teacher,
    study: Study,
    run: loop.Progress,
    tried: list[Prompt],
) -> None:
    """Writes the drafter's folder, measures the bf16 weights as published, and prints their figures.

    Everything is written beside the folder first, so that measuring can be interrupted and begun again.
    """
    student, folder = one.student, asked.out.with_name(f"{asked.out.name}.unfinished")
    rmtree(folder, ignore_errors=True)
    _save(lab, student.to(torch.bfloat16), folder)
    student.to(torch.float32)
    held = data.by_kind(study.held, MEASURED)
    agreement = {kind: learning.agreement(one, teacher, group) for kind, group in held.items()}
    agreement["all"] = learning.agreement(one, teacher, [answer for group in held.values() for answer in group])
    record = _record(asked, lab, student, study, run, agreement, _trials(asked, student, folder, tried))
    drafter_card.write(record, _sources(asked), folder)
    for credits in asked.text.glob("ATTRIBUTION*") if asked.text is not None else ():
        copyfile(credits, folder / credits.name)
    _move(folder, asked.out)
    _show(record, asked.out)


def _move(folder: Path, out: Path) -> None:
    """Moves all files to `out`, the record first: by it this command knows a folder of its own."""
    out.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.iterdir(), key=lambda path: path.name != RECORD):
        path.replace(out / path.name)
    folder.rmdir()


def _save(lab: Lab, student: Any, out: Path) -> None:
    """The weights in a published format; beside a draft model the target's tokenizer."""
    if isinstance(student, Head):
        save_head(student, out, lab.target.name)
        return
    student.save_pretrained(out)
    lab.tokenizer.save_pretrained(out)


def _trials(asked: DrafterTraining, student: Any, folder: Path, tried: list[Prompt]) -> list[Trial]:
    """The published drafter in the real loop; nothing for a run that goes on later."""
    if not tried:
        return []
    head = isinstance(student, Head)
    heads = [f"{asked.kind}:{folder}"] if head else []
    device, draft = asked.settings.device, None if head else folder
    with load(asked.target, draft, device=device, heads=heads, threads=asked.threads) as lab:
        most = student.config.heads if asked.kind == "medusa" else max(GAMMAS)
        return trials(lab, asked.kind, tried, most)


def _record(
    asked: DrafterTraining,
    lab: Lab,
    student: Any,
    study: Study,
    run: loop.Progress,
    agreement: dict[str, Agreement],
    measured: list[Trial],
) -> DrafterRecord:
    device = lab.target.device
    return DrafterRecord(
        name=asked.out.name,
        kind=asked.kind,
        target=lab.target.name,
        target_digest=lab.target.digest,
        parameters=parameters(student),
        vocabulary=student.vocabulary if isinstance(student, Head) else lab.target.vocabulary,
        covered=_covered(student, study.held),
        seed=asked.seed,
        answers={kind: len(group) for kind, group in data.by_kind(study.train, len(study.train)).items()},
        answer_tokens=_tokens(study.train),
        temperatures=tuple(sorted({answer.temperature for answer in study.train})),
        held_out_tokens=_tokens(study.held),
        steps=run.step,
        tokens_per_step=study.recipe.tokens_per_step,
        epochs=run.tokens / sum(len(answer.ids) for answer in study.train),
        minutes=run.spent / 60,
        hardware=hardware(device),
        precision=str(precision(device.type)).removeprefix("torch."),
        agreement=agreement,
        trials=measured,
    )


def _tokens(answers: Sequence[Answer]) -> int:
    return sum(len(answer.ids) - answer.prompt for answer in answers)


def _covered(student: Any, answers: Sequence[Answer]) -> float:
    """The share of the answers' tokens that the student can draft."""
    if not isinstance(student, Head) or student.d2t is None:
        return 1.0
    written = torch.cat([answer.ids[answer.prompt :] for answer in answers])
    return float(torch.isin(written, student.targets.cpu()).float().mean())


def _show(record: DrafterRecord, out: Path) -> None:
    print(f"{record.name}: {record.steps:,} steps, {record.epochs:.1f} passes over {record.answer_tokens:,} tokens.")
    for kind, found in record.agreement.items():
        print(f"  {kind:12} alpha at T=1 by depth {found.shown()}, greedy {found.greedy[0]:.2f}")
    for trial in record.trials:
        print(
            f"  T={trial.temperature:g}, gamma {trial.gamma}: tau {trial.tau:.2f}, speed {trial.ratio:.2f}, "
            f"c {trial.c:.3f} ({trial.prompts} prompts)"
        )
    print(f"Written to {out}.")
