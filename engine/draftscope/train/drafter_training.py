"""`draftscope train-drafter`: trains a drafter for any target on the target's own answers.

The target first answers prompts; then the drafter learns from the answers; then it is published with its figures.
Every part goes on where it stopped, so the same command continues an interrupted run, and a larger `minutes` or
`tokens` continues a finished one.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from draftscope.base import prompts as prompt_files
from draftscope.base.errors import DraftscopeError
from draftscope.base.prompts import Prompt
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.load import load
from draftscope.drafters.registry import trained_kinds
from draftscope.models.heads import Head
from draftscope.models.loading.embedded import RECORD
from draftscope.train.data import saved_answers as on_disk
from draftscope.train.data.corpus import Credit, sources
from draftscope.train.data.prompt_mix import mix, requests_from, training_prompts
from draftscope.train.data.saved_answers import TargetAnswer, by_kind, is_held_out, tokens_of
from draftscope.train.data.writing import WritingPlan, collect, digest_of, feature_layers, tokenize
from draftscope.train.fit.evaluate import Agreement
from draftscope.train.fit.fit import Budget, Fitted, fit, interruptible
from draftscope.train.fit.numerics import precision
from draftscope.train.fit.teaching import Teacher
from draftscope.train.fit.training_texts import AnswerText, fingerprint
from draftscope.train.publish import figures
from draftscope.train.publish.card import card
from draftscope.train.publish.figures import Trial, trials
from draftscope.train.publish.publish import (
    AnswersRead,
    Publication,
    TrainingRecord,
    print_figures,
    publish,
    tokens_behind,
)
from draftscope.train.students.recipes import PRESETS, Preset
from draftscope.train.students.students import first_student, lesson_for, load_student

MAX_MEASURED = 48  # held-out answers of one kind in the published figures
AGAIN = "Run the same command"
MAX_TRIED = 1  # held-out prompts of one kind that are decoded


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
    warm_start: Path | None = None  # a drafter's folder, whose weights a new run starts from
    preset: str = "cpu"
    tokens: int | None = None  # of the target's answers
    minutes: float | None = None  # in training steps, over all sittings
    sitting: float | None = None  # minutes after which to stop, to continue later
    seed: int = 0
    threads: int = 1

    @cached_property
    def settings(self) -> Preset:
        return PRESETS[self.preset]

    @property
    def credits(self) -> list[Credit]:
        return sources(self.text) if self.text is not None else []

    def refuse(self) -> None:
        """Raises `DraftscopeError` for what can be known before a model is loaded."""
        if self.kind not in (kinds := trained_kinds()):
            raise DraftscopeError(f"--kind {self.kind}: choose from {', '.join(kinds)}.")
        for name in ("tokens", "minutes", "sitting"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise DraftscopeError(f"--{name} {value:g} leaves nothing to train: give a positive number.")
        self.settings.place()
        if self.warm_start is not None and not (self.warm_start / "config.json").is_file():
            raise DraftscopeError(f"There is no drafter in '{self.warm_start}': name another folder with --warm-start.")
        if self.warm_start is not None and self.warm_start.resolve() == self.out.resolve():
            raise DraftscopeError(f"--warm-start and --out are both '{self.out}': write to another folder.")
        if self.out.exists() and not (self.out / RECORD).exists() and any(self.out.iterdir()):
            raise DraftscopeError(f"'{self.out}' holds other files: name a new folder, or one made by this command.")

    def writing_plan(self, layers: tuple[int, ...]) -> WritingPlan:
        preset = self.settings.answers
        return WritingPlan(
            tokens=self.tokens or preset.tokens,
            longest=preset.longest,
            together=preset.together,
            layers=layers if preset.keeps_features else (),
            seed=self.seed,
        )


def train_drafter(training: DrafterTraining) -> bool:
    """Whether training is finished; if False, the same command continues. What there is is published either way,
    unless the target is still writing. Raises `DraftscopeError` for unusable values, prompts and folders."""
    training.refuse()
    sitting = training.sitting or training.settings.answers.sitting or math.inf
    deadline = time.monotonic() + sitting * 60
    requests = read_prompts(training)  # before the target is loaded
    torch.set_num_threads(training.threads)
    torch.backends.cuda.enable_cudnn_sdp(False)  # it plans attention anew for every shape
    device = training.settings.device
    dtype = str(precision(device)).removeprefix("torch.")
    with load(training.target, device=device, dtype=dtype, threads=training.threads, graphs=False) as engine:
        engine.target.use_torch_products()
        return _train(training, engine, requests, deadline)


def _train(training: DrafterTraining, engine: DecodingEngine, requests: list[Prompt], deadline: float) -> bool:
    preset, network, kind = training.settings.answers, engine.target.network, training.kind
    layers = feature_layers(engine.target.layers)
    prompts = tokenize(requests, engine.tokenizer)
    about = f"{engine.target.digest or fingerprint(0, [], network)}.{training.seed}"
    folder = training.work / f"answers.{digest_of(about, prompts)}"
    with interruptible() as interrupted:
        plan = training.writing_plan(layers)
        done = collect(engine, prompts, folder, plan, lambda: interrupted() or time.monotonic() > deadline)
    if not done:
        if any(on_disk.batch_files(folder)):
            print(f"Stopped while the target was writing; its answers are in '{folder}'. {AGAIN} to continue.")
        else:
            print(f"Stopped before the target had finished its first answers. {AGAIN} to start again.")
        return False
    train, held = on_disk.load(folder, layers)
    if training.warm_start is None:
        student, seen = first_student(kind, network, train, prompts, training.seed), 0
    else:
        student, seen = load_student(kind, training.warm_start, network), tokens_behind(training.warm_start)
        about += f".{fingerprint(0, [], student)}"
    lesson, recipe, state = lesson_for(network, student), preset.recipe(kind), training.work / f"{kind}.{about}"
    source = AnswerText(Teacher(lesson, layers), train, held, recipe, training.seed, f"{kind} {about}", seen)
    before = None if training.warm_start is None else source.agreement(_measured(source)["all"])
    fitted = fit(lesson, source, recipe, Budget((training.minutes or preset.minutes) * 60, deadline=deadline), state)
    if fitted.progress.step:
        tried = tried_prompts(requests, engine) if fitted.done else []
        publish_drafter(training, engine, fitted, source, tried, before)
    if not fitted.done:
        print(f"Stopped at step {fitted.progress.step}; saved in '{state}'. {AGAIN} to continue.")
    return fitted.done


def read_prompts(training: DrafterTraining) -> list[Prompt]:
    """What the target is asked: a file's prompts or those written for training, and requests made from a text."""
    requests, preset = list[Prompt](), training.settings.answers
    if training.prompts is not None:
        requests, notes = prompt_files.read(training.prompts)
        for note in notes:
            print(note)
    if training.text is not None:
        requests += requests_from(training.text, preset.per_file)
    if training.prompts is None:
        requests += training_prompts(training.seed, preset.per_kind)
    return mix(requests, training.seed)


def tried_prompts(requests: Sequence[Prompt], engine: DecodingEngine) -> list[Prompt]:
    """`MAX_TRIED` prompts of each kind whose answers are held out."""
    count: Counter[str] = Counter()
    chosen = []
    for prompt in requests:
        if count[prompt.kind] < MAX_TRIED and is_held_out(engine.encode(prompt.text)):
            count[prompt.kind] += 1
            chosen.append(prompt)
    return chosen


def _measured(source: AnswerText) -> dict[str, list[TargetAnswer]]:
    """The held-out answers of the published figures, by kind and all of them."""
    groups = by_kind(source.held, MAX_MEASURED)
    return groups | {"all": [answer for group in groups.values() for answer in group]}


def publish_drafter(
    training: DrafterTraining,
    engine: DecodingEngine,
    fitted: Fitted,
    source: AnswerText,
    tried: list[Prompt],
    before: Agreement | None,
) -> None:
    """Writes the drafter's folder and prints its figures; `tried` prompts are decoded with it. `before` is the
    agreement of the weights that it started from."""
    student = fitted.lesson.student

    def measure(record: TrainingRecord, folder: Path) -> TrainingRecord:
        return replace(
            record,
            vocabulary=student.vocabulary if isinstance(student, Head) else engine.target.vocabulary,
            covered=covered_share(student, source.held),
            answers=_answers_read(fitted, source),
            started_from="" if training.warm_start is None else training.warm_start.name,
            agreement={kind: source.agreement(group) for kind, group in _measured(source).items()},
            before=before,
            trials=_trials(training, student, folder, tried),
        )

    publication = Publication(
        name=training.out.name,
        kind=training.kind,
        target=engine.target.digest,
        target_name=engine.target.name,
        seed=training.seed,
        out=training.out,
        save_tokenizer=engine.tokenizer.save_pretrained,
        credits=training.text,
    )
    record = publish(fitted, publication, measure, lambda record: card(record, student, training.credits))
    print_figures(record, training.out)


def _trials(training: DrafterTraining, student: Any, folder: Path, tried: list[Prompt]) -> list[Trial]:
    """The published drafter in the real loop; nothing for a run that continues later."""
    if not tried:
        return []
    is_head, device = isinstance(student, Head), training.settings.device
    heads, draft = ([f"{training.kind}:{folder}"], None) if is_head else ([], folder)
    longest = student.max_draft if is_head else math.inf
    plan = replace(figures.TRIALS, gammas=tuple(gamma for gamma in figures.TRIALS.gammas if gamma <= longest))
    with load(training.target, draft, device=device, heads=heads, threads=training.threads) as engine:
        return trials(engine, training.kind, tried, plan)


def _answers_read(fitted: Fitted, source: AnswerText) -> AnswersRead:
    return AnswersRead(
        prompts={kind: len(group) for kind, group in by_kind(source.train, len(source.train)).items()},
        tokens=tokens_of(source.train),
        temperatures=tuple(sorted({answer.temperature for answer in source.train})),
        held_out_tokens=tokens_of(source.held),
        epochs=(fitted.progress.tokens - source.seen) / sum(len(answer.ids) for answer in source.train),
    )


def covered_share(student: Any, answers: Sequence[TargetAnswer]) -> float:
    """The share of the answers' tokens that the student can draft."""
    if not isinstance(student, Head) or student.d2t is None:
        return 1.0
    tokens = torch.cat([answer.ids[answer.prompt :] for answer in answers])
    return float(torch.isin(tokens, student.targets.cpu()).float().mean())
