"""Answers on disk: one safetensors file for each batch of them, with the target's features if they were kept.

A file is written under another name and then renamed, so a folder holds whole batches only and an interrupted run
continues after the last one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from draftscope.base.errors import DraftscopeError, quoted

HELD_OUT = 16  # one of so many prompts is held out
MIN_HELD_OUT = 2  # answers


@dataclass(frozen=True)
class TargetAnswer:
    """A prompt in the target's chat template and the target's answer, as tokens.

    `features()` are the target's hidden states [tokens - 1, F] at all tokens but the last; None if they were not kept.
    """

    kind: str
    temperature: float
    prompt: int  # tokens of the prompt
    ids: Tensor  # [tokens]
    features: Callable[[], Tensor] | None

    @property
    def held_out(self) -> bool:
        """Whether it is for measuring only. Decided by the prompt, so all answers to one prompt are on one side."""
        return is_held_out(self.ids[: self.prompt].tolist())


def is_held_out(prompt: list[int]) -> bool:
    """Whether the answers to a prompt, given as tokens, are held out."""
    return hashlib.sha256(repr(prompt).encode()).digest()[0] % HELD_OUT == 0


def path_of(folder: Path, number: int) -> Path:
    return folder / f"answers-{number:05}.safetensors"


def write_batch(path: Path, answers: list[TargetAnswer], layers: tuple[int, ...]) -> None:
    """Writes one batch. `layers` are the hidden states that the features consist of."""
    kept = [answer.features() for answer in answers if answer.features is not None]
    tensors = {
        "ids": torch.cat([answer.ids.to(torch.int32) for answer in answers]) if answers else torch.zeros(0),
        "lengths": torch.tensor([len(answer.ids) for answer in answers]),
        "prompts": torch.tensor([answer.prompt for answer in answers]),
    }
    if kept:
        tensors["features"] = torch.cat(kept).to(torch.bfloat16)
    about = {"kinds": [a.kind for a in answers], "temperatures": [a.temperature for a in answers], "layers": layers}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    try:
        save_file(tensors, partial, metadata={"about": json.dumps(about)})
    except (OSError, SafetensorError) as error:
        partial.unlink(missing_ok=True)
        reason = str(getattr(error, "strerror", None) or error).lower()
        folder = quoted(str(path.parent))
        raise DraftscopeError(f"'{folder}' cannot be written ({reason}): free some space or name another.") from None
    os.replace(partial, path)


def read_batch(path: Path, layers: tuple[int, ...]) -> list[TargetAnswer]:
    """The answers of one batch; without features if they are not those of `layers`. Features are read when used."""
    with safe_open(path, "pt") as file:
        about = json.loads(file.metadata()["about"])
        lengths, prompts = file.get_tensor("lengths").tolist(), file.get_tensor("prompts").tolist()
        if not lengths:
            return []
        ids = file.get_tensor("ids").long().split(lengths)
        kept = tuple(about["layers"]) == layers and "features" in file.keys()  # noqa: SIM118 - not a dictionary
    ends = list(accumulate(length - 1 for length in lengths))
    features = [partial(_features, path, end - length + 1, end) for length, end in zip(lengths, ends, strict=True)]
    columns = zip(about["kinds"], about["temperatures"], prompts, ids, features, strict=True)
    return [TargetAnswer(kind, t, prompt, row, noted if kept else None) for kind, t, prompt, row, noted in columns]


def _features(path: Path, start: int, end: int) -> Tensor:
    with safe_open(path, "pt") as file:
        rows: Tensor = file.get_slice("features")[start:end]
    return rows


def batch_files(folder: Path) -> Iterator[Path]:
    """The files of all batches, in order."""
    yield from sorted(folder.glob("answers-*.safetensors"))


def load(folder: Path, layers: tuple[int, ...]) -> tuple[list[TargetAnswer], list[TargetAnswer]]:
    """All answers in `folder`, to train on and held out. Raises `DraftscopeError` if there are too few."""
    all_answers = [answer for path in batch_files(folder) for answer in read_batch(path, layers)]
    train, held = [[a for a in all_answers if a.held_out is side] for side in (False, True)]
    if not train or len(held) < MIN_HELD_OUT:
        raise DraftscopeError(
            f"'{folder}' has {len(train)} answers to train on and {len(held)} held out; at least 1 and "
            f"{MIN_HELD_OUT} are needed: raise --tokens, or give more prompts."
        )
    return train, held


def tokens_of(answers: Iterable[TargetAnswer]) -> int:
    """Without their prompts."""
    return sum(len(answer.ids) - answer.prompt for answer in answers)


def by_kind(answers: Sequence[TargetAnswer], max_count: int) -> dict[str, list[TargetAnswer]]:
    """The first `max_count` answers of each kind."""
    groups: dict[str, list[TargetAnswer]] = {}
    for answer in answers:
        groups.setdefault(answer.kind, []).append(answer)
    return {kind: members[:max_count] for kind, members in sorted(groups.items())}
