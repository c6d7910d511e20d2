"""`draftscope adapt`: continues to train one of the embedded drafters on the user's text.

The target does not change, so the output stays exactly the target's; the drafter agrees with it more often on such
text. The last tenth of the text is held out, and acceptance and speed are measured on it before and after.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from draftscope.base.errors import DraftscopeError
from draftscope.base.prompts import Prompt
from draftscope.decode.load import load
from draftscope.measure.bench.plan import BenchPlan
from draftscope.measure.bench.statistics import Interval
from draftscope.models.loading import embedded
from draftscope.models.loading.embedded import Member
from draftscope.train.data import corpus, tokenizer
from draftscope.train.data.corpus import BLOCK, ROW, Domain, Texts
from draftscope.train.family import save_tokenizer
from draftscope.train.fit.evaluate import Agreement, agreement
from draftscope.train.fit.fit import Budget, TrainingProgress, fit
from draftscope.train.fit.sources import CorpusText, fingerprint
from draftscope.train.publish.figures import trials
from draftscope.train.publish.publish import Publication, publish
from draftscope.train.publish.record import AdaptationRecord, TrainingRecord
from draftscope.train.students.recipes import ADAPTED
from draftscope.train.students.students import lesson_for, load_model, load_student

HELD_OUT = 10  # one tenth of the text
ROWS = 64  # held-out rows of 512 tokens, at most
PROMPTS, GIVEN = 6, 64  # prompts from the held-out text that are timed, and the tokens of each
SPEED = BenchPlan(gammas=(4,), temperatures=(1.0,), tokens=48, peers=False)


@dataclass(frozen=True)
class Adaptation:
    """Acceptance and speedup before and after, on the held-out text.

    Speedups are tokens/s of chains of four drafts at temperature 1 divided by plain decoding's, prefill included. If
    training was interrupted, `done` is False and there are no `speedups`; the same command continues.
    """

    folder: Path
    before: Agreement
    after: Agreement
    progress: TrainingProgress
    done: bool
    speedups: tuple[Interval, Interval] | None = None


def adapt(name: str, text: Path, out: Path, work: Path, minutes: float) -> Adaptation:
    """Trains the embedded drafter `name` on the documents in `text` and writes it to the new folder `out`.

    Raises DraftscopeError for an unknown name or a target, a missing model, too little text, or an existing `out`.
    """
    if out.exists():
        raise DraftscopeError(f"{out} already exists and is not overwritten: name another folder with --out.")
    member, home, place = _member_and_folders(name)
    texts = read_text(text, tokenizer.load_tokenizer(home))
    target = load_model(home)
    student = load_student(member.kind, place, target)
    lesson, held = lesson_for(target, student), texts.val[0]
    before = agreement(lesson, held, ROWS)
    state = work / "adapt" / f"{name}.{fingerprint(0, texts.train, student)}"
    fitted = fit(lesson, CorpusText(lesson, texts, ADAPTED, 0, 0, 0, state), ADAPTED, Budget(minutes * 60), state)
    after = agreement(lesson, held, ROWS)
    if not fitted.done:
        return Adaptation(out, before, after, fitted.progress, False)
    prompts = openings(held, texts.tokenizer)

    def measure(record: TrainingRecord, folder: Path) -> AdaptationRecord:
        speedups = speedup(member, home, place, prompts), speedup(member, home, folder, prompts)
        return AdaptationRecord(**vars(record), before=before, after=after, speedups=speedups)

    publication = Publication(
        name=f"{member.title}, adapted",
        kind=member.kind,
        target=embedded.digest(home),
        target_name=embedded.find(member.of).title,
        seed=0,
        out=out,
        save_tokenizer=partial(save_tokenizer, texts),
    )
    record = publish(fitted, publication, measure)
    return Adaptation(out, before, after, fitted.progress, True, record.speedups)


def read_text(text: Path, bpe: Any) -> Texts:
    """The user's text as training and held-out tokens; documents may be separated as in a corpus."""
    if not text.is_file():
        raise DraftscopeError(f"There is no text file {text}: name one with --text.")
    ids = [tokenizer.END]
    for document in corpus.documents(text):
        ids += [*bpe.encode(document, add_special_tokens=False).ids, tokenizer.END]
    held = max(ROW + 1, len(ids) // HELD_OUT)
    if len(ids) < held + BLOCK + 1:
        raise DraftscopeError(
            f"{text} has {len(ids):,} tokens; training and measuring need at least {ROW + BLOCK + 2:,}: add more text."
        )
    tokens = np.asarray(ids, dtype=np.uint16)
    name = text.name.split(".")[0]
    return Texts([Domain.of(name, tokens[:-held])], [Domain.of(name, tokens[-held:])], bpe)


def _member_and_folders(name: str) -> tuple[Member, Path, Path]:
    """The member, its target's folder and the member's folder."""
    member = embedded.find(name)
    if not member.of:
        raise DraftscopeError(f"'{name}' is a target, and only drafters can be adapted: choose one of its drafters.")
    home, place = embedded.place(member.of), embedded.place(name)
    if home is None or place is None:
        missing = member.of if home is None else name
        raise DraftscopeError(
            f"'{missing}' is not trained yet: train it with 'draftscope train family --members {missing}'."
        )
    return member, home, place


def openings(held: Domain, bpe: Any) -> list[Prompt]:
    """Prompts spread evenly over the held-out text."""
    starts = torch.linspace(0, len(held.tokens) - GIVEN, PROMPTS).long().tolist()
    return [Prompt(held.name, bpe.decode(held.tokens[start : start + GIVEN].tolist())) for start in starts]


def speedup(member: Member, home: Path, place: Path, prompts: list[Prompt]) -> Interval:
    """The speed with the drafter in `place`, over plain decoding's: the median over prompts and repeats."""
    heads = [f"{member.kind}:{place}"] if member.is_head else []
    chain = member.kind if member.is_head else "draft"
    with load(home, None if member.is_head else place, threads=torch.get_num_threads(), heads=heads) as engine:
        (trial,) = trials(engine, chain, prompts, SPEED)
    return trial.ratio
