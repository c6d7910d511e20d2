"""The target answers prompts, and its hidden states are noted while it does.

A head drafts after the target's own words, so those are what it should be trained on: trained on other text it agrees
with the target far less. Every batch has its own temperature. An answer that begins to loop is stopped and cut before
the loop; what is then too short is dropped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

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
from draftscope.train.data.answers import TargetAnswer, batch_files, path_of, read_batch, write_batch
from draftscope.verify.tree import DraftTree, empty
from draftscope.verify.uniforms import Streams
from draftscope.verify.verify import Rule

TEMPERATURES = (0.0, 0.7, 1.0)  # of successive batches
MAX_PROMPT = 320  # tokens, chat template included
CHECKED = 16  # rounds between two looks for loops
RECENT = 64  # tokens in which a loop is looked for while the target writes
MIN_ANSWER = 8  # tokens of an answer
SORTED = 8  # batches of prompts among which similar lengths are looked for: few enough that each has a mix of texts


@dataclass(frozen=True)
class TokenizedPrompt:
    """A prompt in the target's chat template."""

    kind: str
    tokens: list[int]


def feature_layers(layers: int) -> tuple[int, ...]:
    """The hidden states of a target of so many layers that any drafter reads: EAGLE-3's three and the last."""
    return (*default_layers(layers), layers)


def tokenize(prompts: Sequence[Prompt], tokenizer: Any) -> list[TokenizedPrompt]:
    """The prompts as the target reads them; those of more than `MAX_PROMPT` tokens are left out.

    A target without a chat template continues the bare prompt. Raises `DraftscopeError` if no prompt is short enough.
    """
    chat, tokenized = Chat(), []
    for prompt in prompts:
        rendered = chat.render(tokenizer, prompt.text, str(tokenizer.name_or_path))
        text, special = (prompt.text, True) if rendered is None else (rendered, False)
        tokens: list[int] = tokenizer(text, add_special_tokens=special)["input_ids"]
        if 1 < len(tokens) <= MAX_PROMPT:
            tokenized.append(TokenizedPrompt(prompt.kind, tokens))
    if not tokenized:
        raise DraftscopeError(
            f"None of the {len(prompts):,} prompts has 2 to {MAX_PROMPT} tokens: give shorter prompts."
        )
    return tokenized


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


def collect(
    pair: LoadedPair,
    prompts: Sequence[TokenizedPrompt],
    folder: Path,
    plan: WritingPlan,
    stopped: Callable[[], bool],
) -> bool:
    """Whether `folder` has `plan.tokens` tokens of answers; False if `stopped` says so before that.

    A batch that was interrupted is lost, all others stay. Raises `DraftscopeError` if the prompts run out.
    """
    prompts = alike(prompts, plan.together, plan.seed)
    count = sum(_tokens(path) for path in batch_files(folder))
    number = 0
    with tqdm(total=plan.tokens, initial=count, desc="target's answers", unit=" tokens", mininterval=5) as bar:
        while count < plan.tokens:
            part = prompts[number * plan.together : (number + 1) * plan.together]
            if not part:
                raise DraftscopeError(
                    f"All {len(prompts):,} prompts are answered, with {count:,} tokens: give more prompts, or ask for "
                    f"fewer than {plan.tokens:,} tokens."
                )
            path = path_of(folder, number)
            if not path.exists():
                temperature = TEMPERATURES[number % len(TEMPERATURES)]
                answers = answer(pair, part, temperature, number, plan, stopped)
                if answers is None:
                    return False
                write_batch(path, answers, plan.layers)
                bar.update(new := _tokens(path))
                count += new
            number += 1
    return True


def alike(prompts: Sequence[TokenizedPrompt], together: int, seed: int) -> list[TokenizedPrompt]:
    """The prompts with those of similar length in a batch: shorter ones are padded to the longest."""
    shuffled, size = Random(seed), SORTED * together
    ordered: list[TokenizedPrompt] = []
    for start in range(0, len(prompts), size):
        part = sorted(prompts[start : start + size], key=lambda prompt: len(prompt.tokens))
        batches = [part[first : first + together] for first in range(0, len(part), together)]
        shorter = batches.pop() if len(batches[-1]) < together else []  # a batch of its own: the last
        shuffled.shuffle(batches)
        ordered += [prompt for batch in [*batches, shorter] for prompt in batch]
    return ordered


def _tokens(path: Path) -> int:
    """Tokens of the answers in one batch."""
    return sum(len(answer.ids) - answer.prompt for answer in read_batch(path, ()))


def answer(
    pair: LoadedPair,
    prompts: Sequence[TokenizedPrompt],
    temperature: float,
    number: int,
    plan: WritingPlan,
    stopped: Callable[[], bool] = lambda: False,
) -> list[TargetAnswer] | None:
    """The target's answers, cut before they loop; batch `number` of a seed. None if `stopped` before they end."""
    settings = Settings.of(drafter="plain", temperature=temperature, max_new_tokens=plan.longest)
    notes = Notes(pair.target, plan.layers, len(prompts))
    first = number * plan.together
    streams = Streams(plan.seed, tuple(range(first, first + len(prompts))))
    texts, ending = [list(prompt.tokens) for prompt in prompts], Ending(pair.eos, (), settings.max_new_tokens)
    session = Session(pair.target, notes, texts, settings, Rule(), pair.pieces, ending, 0, streams)
    for step in session.steps():
        if stopped():
            return None
        if step.index % CHECKED == CHECKED - 1:
            session.stop({row for row in step.rows if loops(session.transcripts[row].tokens[-RECENT:])})
    answers = []
    for place, (prompt, transcript) in enumerate(zip(prompts, session.transcripts, strict=True)):
        tokens = before_loop(transcript.tokens)
        if len(tokens) < MIN_ANSWER:
            continue
        ids = torch.tensor(prompt.tokens + tokens)
        features = partial(notes.of, place, len(ids) - 1) if plan.layers else None
        answers.append(TargetAnswer(prompt.kind, temperature, len(prompt.tokens), ids, features))
    return answers


def digest_of(about: str, prompts: Sequence[TokenizedPrompt]) -> str:
    """A digest of the target, named `about`, and the prompts. Folders of answers are named by it, so it must not
    change: 'Asked' is what a prompt was called when the first were written."""
    digest = hashlib.sha256(about.encode())
    for prompt in prompts:
        digest.update(f"Asked(kind={prompt.kind!r}, tokens={prompt.tokens!r})".encode())
    return digest.hexdigest()[:16]


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
