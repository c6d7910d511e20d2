"""`draftscope adapt`: continues to train one of the embedded drafters on the user's own text.

The target does not change, so the output stays exactly the target's; the drafter agrees with it more often on such
text. The last tenth of the text is held out, and acceptance and speed are measured on it before and after.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from draftscope.base.errors import DraftscopeError
from draftscope.measure.bench.statistics import Interval
from draftscope.models.heads import Head, save_head
from draftscope.models.loading import embedded
from draftscope.models.loading.embedded import Member
from draftscope.train.data import corpus, tokenizer
from draftscope.train.data.corpus import BLOCK, ROW, Domain, Texts
from draftscope.train.loop import loop
from draftscope.train.loop.compiling import compiled
from draftscope.train.loop.distill import Places, distill
from draftscope.train.loop.evaluate import Agreement, agreement
from draftscope.train.loop.optimizers import Rates
from draftscope.train.loop.pretrain import Recipe
from draftscope.train.publish.speedup import openings, speedup
from draftscope.train.students import folder
from draftscope.train.students.students import lesson, loaded

HELD_OUT = 10  # one tenth of the text
ROWS = 64  # held-out rows of 512 tokens, at most
RECIPE = Recipe(Rates(matrices=1e-3, rest=5e-4), tokens_per_step=4096)  # a quarter of a new drafter's learning rates


@dataclass(frozen=True)
class Adapted:
    """Acceptance and speedup before and after, on the held-out text.

    Speedups are tokens/s of chains of four drafts divided by plain decoding's. If training was interrupted, `done` is
    False and there are no `speedups`; the same command continues.
    """

    folder: Path
    before: Agreement
    after: Agreement
    progress: loop.Progress
    done: bool
    speedups: tuple[Interval, Interval] | None = None


def adapt(name: str, text: Path, out: Path, work: Path, minutes: float) -> Adapted:
    """Trains the embedded drafter `name` on the documents in `text` and writes it to the new folder `out`.

    Raises DraftscopeError for an unknown name or a target, a missing model, too little text, or an existing `out`.
    """
    if out.exists():
        raise DraftscopeError(f"{out} already exists and is not overwritten: name another folder with --out.")
    member, home, place = _member_and_folders(name)
    texts = read(text, tokenizer.load(home))
    target = folder.load(home)
    student = loaded(member, place, target)
    one = lesson(target, student)
    before = agreement(one, texts.val[0], ROWS)
    state = work / "adapt" / f"{name}.{loop.fingerprint(0, texts.train, student)}"
    budget = loop.Budget(minutes * 60)
    progress, done = distill(one, texts, Places(state, state), budget, 0, 0, RECIPE, compiled(one.loss))
    student.eval()
    found = Adapted(out, before, agreement(one, texts.val[0], ROWS), progress, done)
    if not done:
        return found
    _write(member, student, texts, out)
    prompts = openings(texts.val[0], texts.tokenizer)
    found = replace(found, speedups=(speedup(member, home, place, prompts), speedup(member, home, out, prompts)))
    _note(found, member, home)
    return found


def read(text: Path, bpe: Any) -> Texts:
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
    """The member, its target's folder and its own folder."""
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


def _write(member: Member, student: Any, texts: Texts, out: Path) -> None:
    """Writes the new folder in the format of the drafter's own."""
    if isinstance(student, Head):
        save_head(student.to(torch.bfloat16), out, embedded.find(member.of).title)
    else:
        folder.save(student, texts.tokenizer, out)


def _note(found: Adapted, member: Member, home: Path) -> None:
    """Writes a record of the run to the new folder, instead of a model card."""
    record = {
        "name": f"{member.title}, adapted",
        "target": embedded.digest(home),
        "tokens_seen": found.progress.tokens,
        "minutes": found.progress.spent / 60,
        "before": asdict(found.before),
        "after": asdict(found.after),
        "speedups": [asdict(each) for each in found.speedups or ()],
    }
    (found.folder / embedded.RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
