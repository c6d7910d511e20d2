"""The target answers prompts, and its hidden states are noted while it does.

A head drafts after the target's own words, so those are what it should be trained on: trained on other text it agrees
with the target far less. Every batch has its own temperature. An answer that begins to loop is stopped and cut before
the loop; what is then too short is dropped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
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
from draftscope.decode.lane import Lane
from draftscope.decode.pair import LoadedPair
from draftscope.decode.session import Session
from draftscope.drafters import Drafter
from draftscope.drafters.drafter import Outcome, State
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.statistics import LOOP, repeated_4grams
from draftscope.models.forward.lean import is_llama_shaped
from draftscope.models.heads import default_layers
from draftscope.models.loading.chat import Chat
from draftscope.models.model import Model
from draftscope.train.data.many import AnswerRows, RowPrompt, rows_that_fit, write
from draftscope.train.data.saved_answers import TargetAnswer, batch_files, path_of, read_batch, tokens_of, write_batch
from draftscope.verify.tree import DraftTree, empty
from draftscope.verify.uniforms import Streams

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
    """How much the target writes: `tokens` in all, answers of at most `longest`, `together` prompts to a file. Its
    hidden states at `layers` are kept, if there are any."""

    tokens: int
    longest: int
    together: int
    layers: tuple[int, ...]
    seed: int


@dataclass(frozen=True)
class PromptBatch:
    """The prompts of one file of answers."""

    number: int
    prompts: Sequence[TokenizedPrompt]
    temperature: float


Written = Iterator[tuple[PromptBatch, list[TargetAnswer]]]


def collect(
    pair: LoadedPair,
    prompts: Sequence[TokenizedPrompt],
    folder: Path,
    plan: WritingPlan,
    stopped: Callable[[], bool],
) -> bool:
    """Whether `folder` has `plan.tokens` tokens of answers, or as many as the prompts give; False if `stopped` before.

    Answers of a batch that was interrupted are lost, all others stay.
    """
    prompts = alike(prompts, plan.together, plan.seed)
    count = sum(tokens_of(read_batch(path, ())) for path in batch_files(folder))
    batches = (batch for batch in batches_of(prompts, plan) if not path_of(folder, batch.number).exists())
    with tqdm(total=plan.tokens, initial=count, desc="target's answers", unit=" tokens", mininterval=5) as bar:
        if count >= plan.tokens:
            return True
        for batch, answers in _written(pair, batches, len(prompts), plan, stopped):
            write_batch(path := path_of(folder, batch.number), answers, plan.layers)
            bar.update(new := tokens_of(read_batch(path, ())))
            count += new
            if count >= plan.tokens:
                return True
    if stopped():
        return False
    print(
        f"All {len(prompts):,} prompts are answered at every temperature: {count:,} tokens instead of {plan.tokens:,}. "
        "More prompts would give more."
    )
    return True


def batches_of(prompts: Sequence[TokenizedPrompt], plan: WritingPlan) -> Iterator[PromptBatch]:
    """Every prompt at one temperature after the other: above 0 each gives another answer."""
    starts = range(0, len(prompts), plan.together)
    for turn in range(len(TEMPERATURES)):
        for place, start in enumerate(starts):
            number = turn * len(starts) + place
            temperature = TEMPERATURES[(place + turn) % len(TEMPERATURES)]
            yield PromptBatch(number, prompts[start : start + plan.together], temperature)


def _written(
    pair: LoadedPair, batches: Iterator[PromptBatch], prompts: int, plan: WritingPlan, stopped: Callable[[], bool]
) -> Written:
    """The batches with their answers: thousands at a time where no hidden states are kept, else one batch at a time."""
    network = pair.target.network
    if not plan.layers and is_llama_shaped(network):
        yield from answer_together(network, pair.eos, batches, prompts, plan, stopped)
        return
    for batch in batches:
        answers = answer(pair, batch.prompts, batch.temperature, batch.number, plan, stopped)
        if answers is None:
            return
        yield batch, answers


def answer_together(
    network: Any,
    ends: Collection[int],
    batches: Iterator[PromptBatch],
    prompts: int,
    plan: WritingPlan,
    stopped: Callable[[], bool],
) -> Written:
    """Every batch once all of its answers have ended. `prompts` is how many there are."""
    columns = MAX_PROMPT + plan.longest
    rows = AnswerRows(network, min(prompts, rows_that_fit(network, columns)), MAX_PROMPT, plan.longest)
    begun: dict[int, PromptBatch] = {}
    answers: dict[int, dict[int, TargetAnswer | None]] = {}

    def row_prompts() -> Iterator[RowPrompt]:
        for batch in batches:
            begun[batch.number], answers[batch.number] = batch, {}
            for place, prompt in enumerate(batch.prompts):
                yield RowPrompt(batch.number, place, prompt.tokens, batch.temperature)

    torch.manual_seed(plan.seed)
    for row_prompt, tokens in write(rows, row_prompts(), ends, RECENT, stopped):
        batch, so_far = begun[row_prompt.batch], answers[row_prompt.batch]
        so_far[row_prompt.place] = _answered(batch.prompts[row_prompt.place], tokens, batch.temperature)
        if len(so_far) == len(batch.prompts):
            yield batch, [one for _, one in sorted(so_far.items()) if one is not None]
            del begun[row_prompt.batch], answers[row_prompt.batch]


def _answered(
    prompt: TokenizedPrompt, tokens: list[int], temperature: float, features: Callable[[int], Tensor] | None = None
) -> TargetAnswer | None:
    """An answer, cut before it loops; None if it is then too short. `features(n)` are those of the first n tokens."""
    tokens = before_loop(tokens)
    if len(tokens) < MIN_ANSWER:
        return None
    ids = torch.tensor(prompt.tokens + tokens)
    noted = None if features is None else partial(features, len(ids) - 1)
    return TargetAnswer(prompt.kind, temperature, len(prompt.tokens), ids, noted)


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
    lane = Lane.of(pair, settings)
    session = Session(pair.target, lane, notes, texts, lane.capacity(texts), pair.pieces, ending, streams)
    for step in session.steps():
        if stopped():
            return None
        if step.index % CHECKED == CHECKED - 1:
            session.stop({row for row in step.rows if loops(session.transcripts[row].tokens[-RECENT:])})
    answers = []
    for place, (prompt, transcript) in enumerate(zip(prompts, session.transcripts, strict=True)):
        features = partial(notes.of, place) if plan.layers else None
        answers.append(_answered(prompt, transcript.tokens, temperature, features))
    return [one for one in answers if one is not None]


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
