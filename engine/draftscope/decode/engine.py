"""Loaded models that decode: a text, a chat, token ids, or many of them; `draftscope.api` adds what measures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, Unpack, cast, overload

import torch
from tqdm.auto import tqdm

from draftscope import drafters
from draftscope.base.errors import DraftscopeError, quoted
from draftscope.base.progress import Progress, Watcher, unseen
from draftscope.base.steps import Steps, last
from draftscope.decode import availability
from draftscope.decode.availability import Availability, default_drafter
from draftscope.decode.fork import ForkPoint
from draftscope.decode.lane import Lane
from draftscope.decode.measuring import MeasuringPair
from draftscope.decode.open_session import open_session
from draftscope.decode.prompt import AnyPrompt, EncodedPrompt, encoded_prompt, listed_prompts, read_prompt
from draftscope.decode.recorder import Recorder
from draftscope.decode.run import Run, batch_events
from draftscope.decode.session import Session
from draftscope.decode.start import run_start
from draftscope.drafters import AnyDrafter
from draftscope.drafters.registry import warn_unread
from draftscope.drafters.settings import Settings, SettingValues, takes_settings
from draftscope.models.loading.chat import Chat
from draftscope.models.loading.devices import ThreadChoice
from draftscope.trace import events as trace
from draftscope.trace.result import Result, Trace
from draftscope.verify.uniforms import Streams

CHAT = Chat()
OnRound = Callable[[trace.Round], object]


@dataclass(eq=False, repr=False)
class DecodingEngine(MeasuringPair):
    """Loaded models that decode. `close` it, or use it in a `with` statement, to undo what `load` changed in torch."""

    threads_before: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.compiled: list[str] = []  # sentences: why forwards are not native
        self.threads: ThreadChoice | None = None  # None: they were set, or none are used

    @overload
    def decode(  # type: ignore[overload-overlap]
        self,
        prompt: AnyPrompt,
        drafter: AnyDrafter | None = None,
        record: bool = True,
        *,
        on_round: OnRound | None = None,
        **settings: Unpack[SettingValues],
    ) -> Result: ...

    @overload
    def decode(
        self,
        prompt: Iterable[AnyPrompt],
        drafter: AnyDrafter | None = None,
        record: bool = True,
        *,
        on_round: OnRound | None = None,
        batch: int = 16,
        progress: bool = True,
        **settings: Unpack[SettingValues],
    ) -> Trace: ...

    @takes_settings
    def decode(
        self,
        prompt: AnyPrompt | Iterable[AnyPrompt],
        drafter: AnyDrafter | None = None,
        record: bool = True,
        *,
        on_round: OnRound | None = None,
        batch: int = 16,
        progress: bool = True,
        **settings: Unpack[SettingValues],
    ) -> Result | Trace:
        """Decodes one prompt to its end, or each of a list of prompts.

        A prompt is a text, a list of messages of a chat (`{"role": "user", "content": "..."}`), or a list of token ids.
        A list of prompts is decoded `batch` at a time, with a progress bar, and gives a `Trace` with a run for each. A
        line says how far it is where the drafter ('hybrid', 'sequoia') needs costs that were not measured here before.
        Prompt i draws from random stream i of the seed, whatever the size of a batch; a prompt by itself from stream 0.
        In 16 bits a text may part from the one of another batch size where rounding decides between two tokens.

        `drafter` is a name, a class, a `DrafterInfo` or 'file.py:NAME'; by default that of a known pair ('smollm2':
        'hybrid'), else the loaded draft model, else an EAGLE-3 head with copying, else the first loaded head, else
        'ngram'. `on_round` is called with every recorded round and may raise, which ends the decoding. The settings are
        those of `Settings`, and the options of the drafter; a warning names those that it does not read.

        Raises `DraftscopeError` for everything that can be wrong with prompt, drafter and settings.
        """
        if not isinstance(batch, int) or batch < 1:
            raise DraftscopeError(f"batch = {batch!r}: choose a whole number of at least 1.")
        if on_round is not None and not callable(on_round):
            raise DraftscopeError(f"on_round = {quoted(repr(on_round))}: give a function of a round.")
        name = drafters.adopt(default_drafter(self) if drafter is None else drafter)
        chosen = Lane.of(self, Settings.of(drafter=name, **settings))
        warn_unread([chosen.info.name], settings)
        prompts = listed_prompts(prompt)
        with show_measuring(progress) as watch:
            if prompts is None:
                run = last(self.opening(cast(AnyPrompt, prompt), chosen, record=record), watch)
                return Result(tuple(_watched(run.events(), on_round)))
            encoded = [encoded_prompt(self, prompt, chosen) for prompt in prompts]
            size = batch if self.batches else 1
            with tqdm(total=len(encoded), desc=name, unit="prompt", leave=False, disable=not progress) as bar:
                events = self._batches(encoded, chosen, size, record, watch, bar.update)
                return Trace(tuple(_watched(events, on_round)))

    @takes_settings
    def rounds(
        self, prompt: AnyPrompt, drafter: AnyDrafter | None = None, **settings: Unpack[SettingValues]
    ) -> Iterator[trace.Round]:
        """Streams the rounds of one prompt as they are decoded; closing the iterator stops decoding.

        Raises `DraftscopeError` like `decode`.
        """
        name = drafters.adopt(default_drafter(self) if drafter is None else drafter)
        chosen = Lane.of(self, Settings.of(drafter=name, **settings))
        warn_unread([chosen.info.name], settings)
        run = last(self.opening(prompt, chosen))
        for event in run.events():
            if isinstance(event, trace.Round):
                yield event

    def start(self, prompt: AnyPrompt, settings: Settings, **more: Any) -> Run:
        """`opening`, whose steps are all taken now."""
        return last(self.opening(prompt, Lane.of(self, settings), **more))

    def opening(
        self,
        prompt: AnyPrompt,
        chosen: Lane,
        run: str = "run",
        lane: str = "run",
        record: bool = True,
        fork_point: ForkPoint | None = None,
        at_once: bool = False,
    ) -> Steps[Progress, Run]:
        """A run of the `chosen` drafter and settings that has not begun, called `lane`. With a `fork_point` it
        continues after the prompt and exactly those tokens.

        What its drafter chooses by is measured first, if it was not before; each step says how far that is. `at_once`
        it is presumed instead (`presumed.py`), and measured by `measuring_presumed`. Raises `DraftscopeError` for
        everything that can be wrong with the prompt, the settings and the fork point.
        """
        availability.refuse_unavailable(self, chosen.info)
        given = [] if fork_point is None else fork_point.tokens_for(self.target.vocabulary, self.eos)
        encoded = encoded_prompt(self, prompt, chosen, given)
        measured = yield from self.measuring(chosen, at_once=at_once)
        session = open_session(self, chosen, [encoded.tokens], Streams(chosen.settings.seed, (0,)), True, measured)
        session.transcripts[0].follow(given)
        start = run_start(self, chosen, encoded, run, lane).model_copy(update={"costs": measured.words})
        if fork_point is not None:
            start = start.model_copy(update={"fork": fork_point.event(self.pieces)})
        return Run(session, start, Recorder(start, self.pieces) if record else None)

    def _batches(
        self,
        texts: Sequence[EncodedPrompt],
        lane: Lane,
        size: int,
        record: bool,
        watch: Watcher,
        done: Callable[[int], object],
    ) -> Iterator[trace.AnyEvent]:
        """The events of all prompts, `size` of them together; `done` is called with the number that are complete."""
        availability.refuse_unavailable(self, lane.info)
        for first in range(0, len(texts), size):
            some = texts[first : first + size]
            places = tuple(range(first, first + len(some)))
            session = last(self.opening_batch([text.tokens for text in some], lane, places), watch)
            starts = [
                run_start(self, lane, text, f"run {place}", "run") for text, place in zip(some, places, strict=True)
            ]
            yield from batch_events(session, starts, self.pieces, record)
            done(len(some))

    def start_batch(
        self, prompts: list[list[int]], settings: Settings, sequences: tuple[int, ...], ends: bool = True
    ) -> Session:
        """`opening_batch`, whose steps are all taken now."""
        return last(self.opening_batch(prompts, Lane.of(self, settings), sequences, ends))

    def opening_batch(
        self, prompts: list[list[int]], chosen: Lane, sequences: tuple[int, ...], ends: bool = True
    ) -> Steps[Progress, Session]:
        """A bare session of several tokenised prompts; row b draws from stream `sequences[b]`. `ends`: EOS ends a
        text."""
        measured = yield from self.measuring(chosen, len(prompts))
        return open_session(self, chosen, prompts, Streams(chosen.settings.seed, sequences), ends, measured)

    def encode(self, prompt: AnyPrompt, max_new_tokens: int = 1, chat: Chat = CHAT) -> list[int]:
        """The prompt's tokens, special ones included, by default in the model's chat template if it has one.

        Raises `DraftscopeError` for an empty prompt, or one that is too long together with its answer.
        """
        return read_prompt(self, prompt, max_new_tokens, chat)[1]

    def drafters(self) -> list[Availability]:
        """Every known drafter, and whether this engine can run it."""
        return availability.availabilities(self)

    def close(self) -> None:
        """Gives back the number of threads that `load` changed, which is the whole process's.

        The engine still decodes afterwards, with that number of threads. Close several engines in reverse order.
        """
        if self.threads_before is not None:
            torch.set_num_threads(self.threads_before)
            self.threads_before = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def show_measuring(progress: bool) -> Iterator[Watcher]:
    """A watcher, whose line says how far a measurement is that a drafter needs first, unless `progress` is False."""
    with ExitStack() as stack:
        bars: list[Any] = []

        def watch(now: Progress) -> None:
            if not bars:
                bars.append(stack.enter_context(tqdm(total=0, leave=False, bar_format="{desc}")))
            bars[0].set_description(now.words)

        yield watch if progress else unseen


def _watched(events: Iterator[trace.AnyEvent], on_round: OnRound | None) -> Iterator[trace.AnyEvent]:
    for event in events:
        if on_round is not None and isinstance(event, trace.Round):
            on_round(event)
        yield event
