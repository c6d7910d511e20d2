"""`draftscope train`: the tokenizer, and the embedded models, one after the other; unfinished ones are resumed.

`family` continues from the weights that exist and skips finished members. A member is finished if its record names the
same recipe, training time, text and target; otherwise, for example after its target changed, training continues. The
target is also finished once it has read enough tokens. `target`, `draft` and `all` start afresh, or from the weights in
`warm_start`.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from draftscope.base.errors import DraftscopeError
from draftscope.models.heads.lessons import Distillation, Lesson, NextTokens
from draftscope.models.loading import embedded
from draftscope.models.loading.embedded import FAMILY, Member
from draftscope.train.data import corpus
from draftscope.train.data.batches import Batches
from draftscope.train.data.corpus import Texts, sources
from draftscope.train.fit import fit as fitting
from draftscope.train.fit.evaluate import agreements, scores
from draftscope.train.fit.fit import Budget, Fitted, fit
from draftscope.train.fit.training_texts import CorpusText, fingerprint
from draftscope.train.publish.card import card
from draftscope.train.publish.figures import repeats, specimens
from draftscope.train.publish.publish import (
    Publication,
    TrainingRecord,
    pack,
    print_figures,
    publish,
    read_record,
    tokens_behind,
)
from draftscope.train.students.recipes import EPOCHS, PRESETS, Preset
from draftscope.train.students.shapes import TARGET
from draftscope.train.students.students import first_head, first_model, lesson_for, load_model, load_student, start_as

ELDER = embedded.find("draft").folder  # other draft models start from these weights where names and shapes agree
SAMPLE = 4_000_000  # characters of each domain that the tokenizer learns from
MINUTES = 100.0  # of a target, a draft, or both in a row
DRAFT_SHARE = 1 / 8  # of the minutes, when both models are made
ROWS = 64  # held-out rows of 512 tokens per domain, at most, for the published figures
What = Literal["target", "draft", "tokenizer", "all", "family"]


@dataclass(frozen=True)
class Training:
    """What is to be trained, and where; None stands for the default of each kind of training.

    `members` by name go with 'family' only, `warm_start` with 'target' or 'draft'. `sitting` are the minutes after
    which to stop, `shards` a folder for what was finished, as a tar in pieces.
    """

    what: What
    corpus: Path
    out: Path
    work: Path
    minutes: float | None = None  # time in training steps, over all sittings of the same run
    seed: int = 0  # of text order and first weights
    warm_start: Path | None = None  # model folder whose weights a new run starts from
    threads: int = 1
    members: tuple[str, ...] | None = None
    preset: str | None = None
    sitting: float | None = None
    shards: Path | None = None

    @property
    def continues(self) -> bool:
        """Whether members continue from the weights in `out`, and finished ones are skipped."""
        return self.what == "family"

    @property
    def chosen(self) -> tuple[Member, ...]:
        """The members to train, in the family's order."""
        names = {"all": ("target", "draft"), "family": self.members or tuple(member.name for member in FAMILY)}
        chosen = {embedded.find(name) for name in names.get(self.what, (self.what,))}
        return tuple(sorted(chosen, key=FAMILY.index))

    @property
    def settings(self) -> Preset:
        return PRESETS[self.preset or "cpu"]

    def place(self, member: Member) -> Path:
        """The folder of a member's weights."""
        return self.out / member.folder

    def minutes_of(self, member: Member) -> float:
        if self.continues:
            return self.settings.minutes[member.name] if self.minutes is None else self.minutes
        minutes = MINUTES if self.minutes is None else self.minutes
        if self.what != "all":
            return minutes
        return minutes * (DRAFT_SHARE if member.of else 1 - DRAFT_SHARE)

    def state(self, member: Member, start: str) -> Path:
        """The folder of an unfinished run. `start` is a digest of the weights and the recipe it starts with."""
        return self.work / "family" / f"{member.name}.{start}" if self.continues else self.work / member.name


@dataclass(frozen=True)
class MemberTask:
    """A member to train.

    `learns` is the digest of seed, text, target and blank network; `start` also covers the weights it starts from, on
    which it was trained for `seen` tokens. `seed` draws, `order` shuffles the text.
    """

    member: Member
    lesson: Lesson
    learns: str
    start: str
    seen: int
    seed: int
    order: int


def train(training: Training) -> bool:
    """Trains what was asked for. False when it was interrupted: the same call continues from there.

    Raises `DraftscopeError` for values that do not go together, a corpus that cannot be read, and a missing GPU.
    """
    sitting = math.inf if training.sitting is None else training.sitting * 60
    deadline = time.monotonic() + sitting
    refuse(training)
    torch.set_num_threads(training.threads)
    if training.what == "tokenizer":
        _train_tokenizer(training)
        return True
    texts = _read_texts(training)
    made: list[Path] = []
    done = True
    for member in training.chosen:
        if _had_its_tokens(training, member, texts):
            continue
        done = time.monotonic() < deadline and _train_member(training, member, texts, deadline, made)
        if not done:
            break
    if training.shards is not None and made:
        pack(made, training.shards)
    return done


def refuse(training: Training) -> None:
    """Raises before the hours of training, not after."""
    for name, value in (("minutes", training.minutes), ("sitting", training.sitting)):
        if value is not None and value <= 0:
            raise DraftscopeError(f"--{name} {value:g} leaves no time to train: give a positive number.")
    if training.members is not None and not training.continues:
        raise DraftscopeError(f"--members goes with 'family', not with '{training.what}'.")
    training.settings.place()  # refuses a missing GPU
    for split in ("train", "val"):
        corpus.domain_files(training.corpus, split)
    if training.what == "tokenizer":
        return
    _refuse_missing_targets(training)
    if training.warm_start is None:
        return
    if training.what not in ("target", "draft"):
        raise DraftscopeError(f"--warm-start goes with 'target' or 'draft', not with '{training.what}'.")
    if fitting.started(state := training.work / training.what):
        raise DraftscopeError(f"'{state}' holds an unfinished run: drop --warm-start or move it away.")


def _refuse_missing_targets(training: Training) -> None:
    names = {member.name for member in training.chosen}
    for member in training.chosen:
        if member.of and member.of not in names and not _present(training.place(embedded.find(member.of))):
            raise DraftscopeError(
                f"'{member.name}' learns from '{member.of}', and there is no model in '{training.out}' for it: train "
                "it first, or add it to --members."
            )


def _train_tokenizer(training: Training) -> None:
    if fitting.started(state := training.work / "target"):
        raise DraftscopeError(f"'{state}' holds a run that reads the old tokenizer: move it away first.")
    texts = (text for path in corpus.domain_files(training.corpus, "train").values() for text in _beginning(path))
    trained = corpus.train_tokenizer(texts, TARGET.vocab_size)
    corpus.save_tokenizer(trained, training.work / "tokenizer", TARGET.max_position_embeddings)
    print(f"Tokenizer written to '{training.work / 'tokenizer'}'.")


def _beginning(path: Path) -> Iterator[str]:
    """The first documents of one domain."""
    left = SAMPLE
    for text in corpus.documents(path):
        yield text
        left -= len(text)
        if left <= 0:
            return


def _read_texts(training: Training) -> Texts:
    """The corpus in the target's tokens, or in those of a tokenizer trained on it where a target starts afresh."""
    home, ready = training.place(embedded.find("target")), training.work / "tokenizer"
    if training.warm_start is not None and training.what == "target":
        home = training.warm_start
        corpus.save_tokenizer(corpus.load_tokenizer(home), ready, TARGET.max_position_embeddings)
    elif training.what in ("target", "all") or not (home / "tokenizer.json").exists():
        home = ready
        if not home.exists():
            _train_tokenizer(training)
    return corpus.read_corpus(training.corpus, corpus.load_tokenizer(home), training.work / "cache")


def _train_member(training: Training, member: Member, texts: Texts, deadline: float, made: list[Path]) -> bool:
    """Whether the member is finished. If it was not before, adds its folder to `made`."""
    task = (_drafter if member.of else _target)(training, member, texts)
    recipe, out, minutes = training.settings.recipe(member), training.place(member), training.minutes_of(member)
    stamp = digest(task.learns, repr(recipe), str(minutes))
    if training.continues and read_record(out).get("recipe") == stamp:
        print(f"{member.title} is finished in '{out}'.")
        return True
    state = training.state(member, digest(task.start, repr(recipe)))
    tokens = EPOCHS * texts.size if training.continues and not member.of else Budget.tokens
    budget = Budget(minutes * 60, tokens, deadline)
    source = CorpusText(task.lesson, texts, recipe, task.seed, task.order, task.seen, state.parent)
    fitted = fit(task.lesson, source, recipe, budget, state)
    if not fitted.done:
        step = fitted.progress.step
        print(f"{member.title} stopped at step {step}; saved in '{state}'. Run the same command to continue.")
        return False
    publish_member(training, task, fitted, texts, stamp)
    made.append(out)
    return True


def publish_member(training: Training, task: MemberTask, fitted: Fitted, texts: Texts, stamp: str) -> None:
    """Writes the member's folder and prints its figures."""
    member, student = task.member, fitted.lesson.student
    target = embedded.find(member.of) if member.of else None
    publication = Publication(
        name=member.title,
        kind=member.kind,
        target=embedded.digest(training.place(target)) if target else "",
        target_name=target.title if target else "",
        seed=task.seed,
        out=training.place(member),
        save_tokenizer=partial(save_tokenizer, texts),
        credits=None if target else training.corpus,
    )
    samples = [] if member.is_head else specimens(student, texts, task.seed)
    measure = partial(_measure, fitted.lesson, member, texts, stamp)

    def describe(record: TrainingRecord) -> str:
        return card(record, student, sources(training.corpus), member.name, samples)

    print_figures(publish(fitted, publication, measure, describe), publication.out)


def save_tokenizer(texts: Texts, folder: Path) -> None:
    corpus.save_tokenizer(texts.tokenizer, folder, TARGET.max_position_embeddings)


def _measure(
    lesson: Lesson, member: Member, texts: Texts, stamp: str, record: TrainingRecord, _: Path
) -> TrainingRecord:
    """The record with figures on held-out text."""
    alphas = agreements(lesson, texts.val, ROWS) if isinstance(lesson, Distillation) else {}
    if member.is_head:
        return replace(record, recipe=stamp, agreement=alphas)
    return replace(
        record,
        recipe=stamp,
        agreement=alphas,
        held_out=scores(lesson.student, texts.val, ROWS, texts.tokenizer),
        repeats=repeats(lesson.student, texts.val, record.seed),
    )


def _target(training: Training, member: Member, texts: Texts) -> MemberTask:
    """The task of a target. A target of the family that continues has its seed shifted by the tokens already read, so
    that it reads other text next."""
    start = training.warm_start
    if training.continues and member.name == "target" and _present(training.place(member)):
        start = training.place(member)
    seen = tokens_behind(start) if start is not None else 0
    seed = training.seed + (seen if training.continues else 0)
    network = load_model(start) if start is not None else first_model(member, seed)
    network = network.to(training.settings.place())
    learns = fingerprint(seed, texts.train, network)
    return MemberTask(member, NextTokens(network), learns, learns, seen, seed, seed)


def _drafter(training: Training, member: Member, texts: Texts) -> MemberTask:
    recipe, device, seed = training.settings.recipe(member), training.settings.place(), training.seed
    target = load_model(training.place(embedded.find(member.of))).to(device)
    batches = Batches(texts.train, seed, recipe.tokens_per_step)
    student = first_head(member, target, batches, seed) if member.is_head else first_model(member, seed).to(device)
    learns, seen = fingerprint(seed, texts.train, target, student), 0
    if training.continues:
        seen = _start_from_elder(member, training.out / ELDER, student)
        seen = _continue_from(member, training.place(member), target, student) or seen
    elif training.warm_start is not None:
        student = load_student(member.kind, training.warm_start, target)
        seen = tokens_behind(training.warm_start)
    start = fingerprint(seed, texts.train, target, student)
    order = seed + (seen if training.continues else 0)
    return MemberTask(member, lesson_for(target, student), learns, start, seen, seed, order)


def _start_from_elder(member: Member, elder: Path, student: Any) -> int:
    """Copies the weights of the draft in `elder` into `student` where they fit; the tokens they were trained on."""
    if member.is_head or member.folder == ELDER or not _present(elder):
        return 0
    return tokens_behind(elder) if start_as(student, load_model(elder)) else 0


def _continue_from(member: Member, place: Path, target: Any, student: Any) -> int:
    """Loads the weights in `place` into `student` if they exist and fit; the tokens they were trained on, else 0."""
    if not _present(place):
        return 0
    weights, blank = load_student(member.kind, place, target).state_dict(), student.state_dict()
    if {name: value.shape for name, value in weights.items()} != {name: value.shape for name, value in blank.items()}:
        return 0
    student.load_state_dict(weights)
    return tokens_behind(place)


def _had_its_tokens(training: Training, member: Member, texts: Texts) -> bool:
    """Whether the embedded target has already been trained on enough tokens."""
    place, enough = training.place(member), min(training.settings.enough, EPOCHS * texts.size)
    if not training.continues or member.name != "target" or (seen := tokens_behind(place)) < enough:
        return False
    print(f"{member.title} is finished in '{place}': {seen / 1e6:.1f}M tokens of {enough / 1e6:.1f}M.")
    return True


def _present(place: Path) -> bool:
    return (place / "config.json").is_file()


def digest(*parts: str) -> str:
    """What names a finished recipe or an unfinished run. Saved records and folders hold it, so it must not change."""
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]
