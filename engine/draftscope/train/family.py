"""`draftscope train family`: trains every member in turn, resumes unfinished ones and skips finished ones.

A member is finished if its record names the same recipe, training time, text and target. Otherwise, for example after
its target changed, training continues from the existing weights. The target is also finished once it has read enough
tokens.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftscope.base.errors import DraftscopeError
from draftscope.models.loading import embedded
from draftscope.models.loading.embedded import Member
from draftscope.train.data.batches import Batches
from draftscope.train.data.corpus import Texts
from draftscope.train.loop import loop
from draftscope.train.loop.compiling import compiled
from draftscope.train.loop.distill import Places, distill
from draftscope.train.loop.pretrain import next_token_loss, pretrain
from draftscope.train.publish.finish import Finished, publish
from draftscope.train.publish.shards import pack
from draftscope.train.publish.training_record import read, tokens_behind
from draftscope.train.students import folder
from draftscope.train.students.recipes import EPOCHS, Preset
from draftscope.train.students.students import first_head, first_model, lesson, loaded, start_as

ELDER = embedded.find("draft").folder  # other draft models start from these weights where names and shapes agree


@dataclass(frozen=True)
class FamilyPlan:
    """A request to train. `minutes` override the preset's; `deadline` is in terms of time.monotonic()."""

    members: tuple[Member, ...]
    preset: Preset
    corpus: Path
    out: Path
    work: Path
    seed: int
    minutes: float | None
    deadline: float
    shards: Path | None

    def __post_init__(self) -> None:
        names = {member.name for member in self.members}
        for member in self.members:
            if member.of and member.of not in names and not _present(self.out / embedded.find(member.of).folder):
                raise DraftscopeError(
                    f"'{member.name}' learns from '{member.of}', which is not in {self.out}: add it to --members."
                )

    def minutes_of(self, member: Member) -> float:
        return self.preset.minutes[member.name] if self.minutes is None else self.minutes


@dataclass(frozen=True)
class Task:
    """A member to train. `train` takes a folder for its state and returns the progress and whether it is done.

    `learns` is the digest of seed, text, target and blank network; `start` also covers the weights it starts from.
    """

    network: Any
    seed: int
    learns: str
    start: str
    train: Callable[[Path], tuple[loop.Progress, bool]]


def train_family(plan: FamilyPlan, texts: Texts) -> bool:
    """Whether all members are finished; if False, the same command continues where this one stopped."""
    made: list[Path] = []
    done = True
    for member in plan.members:
        if _had_its_tokens(plan, member, texts):
            continue
        done = time.monotonic() < plan.deadline and _train(plan, member, texts, made)
        if not done:
            break
    if plan.shards is not None and made:
        pack(made, plan.shards)
    return done


def _train(plan: FamilyPlan, member: Member, texts: Texts, made: list[Path]) -> bool:
    """Whether the member is finished. If it was not before, adds its folder to `made`."""
    task = _drafter(plan, member, texts) if member.of else _target(plan, member, texts)
    recipe, place = plan.preset.recipe(member), plan.out / member.folder
    stamp = _digest(task.learns, repr(recipe), str(plan.minutes_of(member)))
    if read(place).get("recipe") == stamp:
        print(f"{member.title} is finished in {place}.")
        return True
    state = plan.work / "family" / f"{member.name}.{_digest(task.start, repr(recipe))}"
    progress, done = task.train(state)
    if not done:
        print(f"{member.title} stopped at step {progress.step}; saved in {state}. Run the same command to continue.")
        return False
    publish(Finished(member, recipe, task.seed, progress, stamp, plan.corpus, plan.out), task.network, texts)
    made.append(place)
    return True


def _target(plan: FamilyPlan, member: Member, texts: Texts) -> Task:
    """The task of a target. Its seed is shifted by the tokens already read, so that it reads other text next."""
    place, recipe = plan.out / member.folder, plan.preset.recipe(member)
    warm = member.name == "target" and _present(place)
    seen = tokens_behind(place) if warm else 0
    seed = plan.seed + seen
    network = (folder.load(place) if warm else first_model(member, seed)).to(plan.preset.place())
    budget = loop.Budget(plan.minutes_of(member) * 60, EPOCHS * texts.size, plan.deadline)
    loss = compiled(next_token_loss)
    start = loop.fingerprint(seed, texts.train, network)
    return Task(
        network,
        seed,
        start,
        start,
        lambda state: pretrain(network, texts, state, budget, seed, seen, recipe, loss),
    )


def _drafter(plan: FamilyPlan, member: Member, texts: Texts) -> Task:
    recipe, device = plan.preset.recipe(member), plan.preset.place()
    target = folder.load(plan.out / embedded.find(member.of).folder).to(device)
    batches = Batches(texts.train, plan.seed, recipe.tokens_per_step)
    student = (
        first_head(member, target, batches, plan.seed) if member.is_head else first_model(member, plan.seed).to(device)
    )
    learns = loop.fingerprint(plan.seed, texts.train, target, student)
    seen = _start_from_elder(member, plan.out / ELDER, student)
    seen = _continue_from(member, plan.out / member.folder, target, student) or seen
    teach = lesson(target, student)
    budget = loop.Budget(plan.minutes_of(member) * 60, deadline=plan.deadline)
    loss, samples = compiled(teach.loss), plan.work / "family"
    return Task(
        student,
        plan.seed,
        learns,
        loop.fingerprint(plan.seed, texts.train, target, student),
        lambda state: distill(teach, texts, Places(state, samples), budget, plan.seed, seen, recipe, loss),
    )


def _start_from_elder(member: Member, elder: Path, student: Any) -> int:
    """Copies the weights of the draft in `elder` into `student` where they fit; the tokens they were trained on."""
    if member.is_head or member.folder == ELDER or not _present(elder):
        return 0
    return tokens_behind(elder) if start_as(student, folder.load(elder)) else 0


def _continue_from(member: Member, place: Path, target: Any, student: Any) -> int:
    """Loads the weights in `place` into `student` if they exist and fit; the tokens they were trained on, else 0."""
    if not _present(place):
        return 0
    known, blank = loaded(member, place, target).state_dict(), student.state_dict()
    if {name: value.shape for name, value in known.items()} != {name: value.shape for name, value in blank.items()}:
        return 0
    student.load_state_dict(known)
    return tokens_behind(place)


def _had_its_tokens(plan: FamilyPlan, member: Member, texts: Texts) -> bool:
    """Whether the embedded target has already been trained on enough tokens."""
    place, enough = plan.out / member.folder, min(plan.preset.enough, EPOCHS * texts.size)
    if member.name != "target" or (seen := tokens_behind(place)) < enough:
        return False
    print(f"{member.title} is finished in {place}: {seen / 1e6:.1f}M tokens of {enough / 1e6:.1f}M.")
    return True


def _present(place: Path) -> bool:
    return (place / "config.json").is_file()


def _digest(*parts: str) -> str:
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]
