"""Lets the target answer prompts until there are enough tokens, batch by batch, resumable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tqdm import tqdm

from draftscope.base.errors import DraftscopeError
from draftscope.decode.pair import LoadedPair
from draftscope.train.answers import shards, writing
from draftscope.train.answers.writing import TEMPERATURES, Asked


def collect(
    pair: LoadedPair,
    asked: Sequence[Asked],
    folder: Path,
    plan: writing.WritingPlan,
    stopped: Callable[[], bool],
) -> bool:
    """Whether `folder` has `plan.tokens` tokens of answers; False if `stopped` says so before that.

    A batch that was interrupted is lost, all others stay. Raises `DraftscopeError` if the prompts run out.
    """
    count = sum(_tokens(path) for path in shards.batches(folder))
    number = 0
    with tqdm(total=plan.tokens, initial=count, desc="target's answers", unit=" tokens", mininterval=5) as bar:
        while count < plan.tokens:
            part = asked[number * plan.together : (number + 1) * plan.together]
            if not part:
                raise DraftscopeError(
                    f"All {len(asked):,} prompts are answered, with {count:,} tokens: give more prompts, or ask for "
                    f"fewer than {plan.tokens:,} tokens."
                )
            path = shards.path_of(folder, number)
            if not path.exists():
                temperature = TEMPERATURES[number % len(TEMPERATURES)]
                answers = writing.answers(pair, part, temperature, number, plan, stopped)
                if answers is None:
                    return False
                shards.write(path, answers, plan.layers)
                bar.update(new := _tokens(path))
                count += new
            number += 1
    return True


def _tokens(path: Path) -> int:
    """Tokens of the answers in one batch."""
    return sum(len(answer.ids) - answer.prompt for answer in shards.read(path, ()))
