"""The target answers prompts, and its hidden states are noted while it does.

A head drafts after the target's own words, so those are what it should be trained on: trained on other text it agrees
with the target far less. Every batch has its own temperature. An answer that begins to loop is stopped and cut before
the loop; what is then too short is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.base.prompts import Prompt
from draftscope.base.text import Ending
from draftscope.decode.pair import LoadedPair
from draftscope.decode.session import Session
from draftscope.drafters import Drafter
from draftscope.drafters.drafter import Outcome, State
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.statistics import LOOP, repeated_4grams
from draftscope.models.heads import default_layers
from draftscope.models.loading.chat import Chat
from draftscope.models.model import Model
from draftscope.train.answers.shards import Answer
from draftscope.verify.tree import DraftTree, empty
from draftscope.verify.uniforms import Streams
from draftscope.verify.verify import Rule

TEMPERATURES = (0.0, 0.7, 1.0)  # of successive batches
LONGEST_PROMPT = 320  # tokens, chat template included
CHECKED = 16  # rounds between two looks for loops
RECENT = 64  # tokens in which a loop is looked for while the target writes
SHORTEST = 8  # tokens of an answer


@dataclass(frozen=True)
class Asked:
    """A prompt in the target's chat template."""

    kind: str
    tokens: list[int]


def feature_layers(layers: int) -> tuple[int, ...]:
    """The hidden states of a target of so many layers that any drafter reads: EAGLE-3's three and the last."""
    return (*default_layers(layers), layers)


def asked(prompts: Sequence[Prompt], tokenizer: Any) -> list[Asked]:
    """The prompts as the target reads them; those of more than `LONGEST_PROMPT` tokens are left out.

    A target without a chat template continues the bare prompt. Raises `DraftscopeError` if no prompt is short enough.
    """
    chat, found = Chat(), []
    for prompt in prompts:
        rendered = chat.render(tokenizer, prompt.text, str(tokenizer.name_or_path))
        text, special = (prompt.text, True) if rendered is None else (rendered, False)
        tokens: list[int] = tokenizer(text, add_special_tokens=special)["input_ids"]
        if 1 < len(tokens) <= LONGEST_PROMPT:
            found.append(Asked(prompt.kind, tokens))
    if not found:
        raise DraftscopeError(
            f"None of the {len(prompts):,} prompts has 2 to {LONGEST_PROMPT} tokens: give shorter prompts."
        )
    return found


class Notes(Drafter):
    """Drafts nothing and notes the target's hidden states of every token it reads."""

    def __init__(self, target: Model, layers: tuple[int, ...], batch: int) -> None:
        self.layers = layers
        self._device = target.device
        self._rows = list(range(batch))
        self._noted: list[list[Tensor]] = [[] for _ in range(batch)]

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        if features is None:
            return
        for noted, prompt, rows in zip(self._noted, prompts, features, strict=True):
            noted.append(rows[: len(prompt) - 1].to("cpu", torch.bfloat16))

    def propose(self, state: State, depth: int) -> DraftTree:  # noqa: ARG002 - drafts nothing
        return empty(len(state.texts), self._device)

    def observe(self, outcome: Outcome) -> None:
        if outcome.features is None:
            return
        for row, features in zip(self._rows, outcome.features.to("cpu", torch.bfloat16), strict=True):
            self._noted[row].append(features)

    def select_rows(self, rows: list[int]) -> bool:
        self._rows = [self._rows[row] for row in rows]
        return True

    def of(self, sequence: int, tokens: int) -> Tensor:
        """The hidden states [tokens, F] of a sequence's first tokens."""
        return torch.cat(self._noted[sequence])[:tokens]


@dataclass(frozen=True)
class WritingPlan:
    """How much the target writes: `tokens` in all, answers of at most `longest`, `together` at a time. Its hidden
    states at `layers` are kept, if there are any."""

    tokens: int
    longest: int
    together: int
    layers: tuple[int, ...]
    seed: int


def answers(
    pair: LoadedPair,
    asked: Sequence[Asked],
    temperature: float,
    number: int,
    plan: WritingPlan,
    stopped: Callable[[], bool] = lambda: False,
) -> list[Answer] | None:
    """The target's answers, cut before they loop; batch `number` of a seed. None if `stopped` before they end."""
    settings = Settings.of(drafter="plain", temperature=temperature, max_new_tokens=plan.longest)
    notes = Notes(pair.target, plan.layers, len(asked))
    session = _session(pair, asked, settings, notes, Streams(plan.seed, _sequences(number, plan.together, len(asked))))
    for step in session.steps():
        if stopped():
            return None
        if step.index % CHECKED == CHECKED - 1:
            session.stop({row for row in step.rows if loops(session.transcripts[row].tokens[-RECENT:])})
    found = []
    for place, (each, transcript) in enumerate(zip(asked, session.transcripts, strict=True)):
        written = before_loop(transcript.tokens)
        if len(written) < SHORTEST:
            continue
        ids = torch.tensor(each.tokens + written)
        features = partial(notes.of, place, len(ids) - 1) if plan.layers else None
        found.append(Answer(each.kind, temperature, len(each.tokens), ids, features))
    return found


def _sequences(number: int, together: int, count: int) -> tuple[int, ...]:
    return tuple(range(number * together, number * together + count))


def _session(pair: LoadedPair, asked: Sequence[Asked], settings: Settings, notes: Notes, streams: Streams) -> Session:
    prompts = [list(each.tokens) for each in asked]
    ending = Ending(pair.eos, (), settings.max_new_tokens)
    return Session(pair.target, notes, prompts, settings, Rule(), pair.pieces, ending, 0, streams)


def loops(tokens: Sequence[int]) -> bool:
    """Whether more than half of a long text's 4-grams are repeats."""
    return len(tokens) >= RECENT and repeated_4grams(tokens) > 0.5


def before_loop(tokens: list[int]) -> list[int]:
    """The longest beginning of an answer in which at most half of `LOOP` of the 4-grams are repeats."""
    seen: set[tuple[int, ...]] = set()
    longest = min(3, len(tokens))
    for end in range(4, len(tokens) + 1):
        seen.add(tuple(tokens[end - 4 : end]))
        if 1 - len(seen) / (end - 3) <= LOOP / 2:
            longest = end
    return tokens[:longest]
