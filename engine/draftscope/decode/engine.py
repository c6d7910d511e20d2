"""Loaded models that decode: a text, a chat, token ids, or many of them; `draftscope.api` adds what measures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from functools import cached_property, partial
from types import TracebackType
from typing import Any, Self, Unpack, cast, overload

import torch
from tqdm.auto import tqdm

from draftscope import drafters
from draftscope.base.costs import Calibration, VerifyCurve
from draftscope.base.errors import DraftscopeError, quoted
from draftscope.base.presumed_costs import ACCEPTED, PresumedCosts
from draftscope.base.progress import Progress, Watcher, unseen, with_progress
from draftscope.base.steps import Steps, Together, last
from draftscope.decode import availability
from draftscope.decode.availability import Availability, default_drafter
from draftscope.decode.calibration import calibration_of, known_costs, quick_curve
from draftscope.decode.fork import ForkPoint
from draftscope.decode.lane import Lane
from draftscope.decode.open_session import MeasuredPair, open_session
from draftscope.decode.pair import LoadedPair, NamedHead
from draftscope.decode.presumed import presumed
from draftscope.decode.prompt import AnyPrompt, listed_prompts, prompt_text, read_prompt
from draftscope.decode.rank_acceptance import by_rank
from draftscope.decode.recorder import Recorder
from draftscope.decode.run import Run, batch_events
from draftscope.decode.session import Session
from draftscope.decode.start import EncodedPrompt, run_start
from draftscope.drafters import AnyDrafter, TextDraftModel
from draftscope.drafters.options import TreeSizeOptions
from draftscope.drafters.policy.sequoia import best_tree
from draftscope.drafters.registry import warn_unread
from draftscope.drafters.settings import Settings, SettingValues, takes_settings
from draftscope.models.loading.chat import Chat
from draftscope.models.loading.devices import ThreadChoice
from draftscope.models.model import Model
from draftscope.trace import events as trace
from draftscope.trace.result import Result, Trace
from draftscope.verify.sampling import Sampling
from draftscope.verify.tree import Counts
from draftscope.verify.uniforms import Streams

CHAT = Chat()
COSTS = "what a round costs here, once for this machine"
RANKS = "which drafted tokens are accepted, for the shape of the tree"
OnRound = Callable[[trace.Round], object]


class DecodingEngine(LoadedPair):
    """Loaded models that decode. `close` it, or use it in a `with` statement, to undo what `load` changed in torch."""

    def __init__(
        self,
        target: Model,
        draft: Model | None,
        tokenizer: Any,
        heads: Mapping[str, NamedHead] | None = None,
        smaller: tuple[Model, ...] = (),
        foreign: TextDraftModel | None = None,
        *,
        threads_before: int | None = None,
    ) -> None:
        super().__init__(target, draft, tokenizer, heads, smaller, foreign)
        self.compiled: list[str] = []  # sentences: why forwards are not native
        self.threads: ThreadChoice | None = None  # None: they were set, or none are used
        self._threads_before = threads_before
        self._calibrating: dict[object, Together[Progress, Calibration]] = {}  # by what it is of
        self._curve = Together(lambda: quick_curve(self))
        self._rates: dict[tuple[str, Sampling], Together[Progress, tuple[float, ...]]] = {}  # acceptance by rank
        self._trees: dict[tuple[str, Sampling, int, int, bool], Counts] = {}  # the last: of presumed costs
        self._tree: Counts | None = None  # instead of the best one
        self._presumed: list[Lane] = []  # chose by costs that were not measured here yet

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
                run = last(self._opening(chosen, cast(AnyPrompt, prompt), record=record), watch)
                return Result(tuple(_watched(run.events(), on_round)))
            encoded = [self._encoded(prompt, chosen) for prompt in prompts]
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
        run = last(self._opening(chosen, prompt))
        for event in run.events():
            if isinstance(event, trace.Round):
                yield event

    def start(self, prompt: AnyPrompt, settings: Settings, **more: Any) -> Run:
        """`opening`, whose steps are all taken now."""
        return last(self.opening(prompt, settings, **more))

    def opening(
        self,
        prompt: AnyPrompt,
        settings: Settings,
        run: str = "run",
        lane: str = "run",
        record: bool = True,
        fork_point: ForkPoint | None = None,
        at_once: bool = False,
    ) -> Steps[Progress, Run]:
        """A run that has not begun. With a `fork_point` it continues after the prompt and exactly those tokens.

        What its drafter chooses by is measured first, if it was not before; each step says how far that is. `at_once`
        it is presumed instead (`presumed.py`), and measured by `measuring_presumed`. Raises `DraftscopeError` for
        everything that can be wrong with the prompt, the settings and the fork point.
        """
        chosen = Lane.of(self, settings)
        return (yield from self._opening(chosen, prompt, run, lane, record, fork_point, at_once))

    def _opening(
        self,
        chosen: Lane,
        prompt: AnyPrompt,
        run: str = "run",
        lane: str = "run",
        record: bool = True,
        fork_point: ForkPoint | None = None,
        at_once: bool = False,
    ) -> Steps[Progress, Run]:
        availability.refuse_unavailable(self, chosen.info)
        given = [] if fork_point is None else fork_point.tokens_for(self.target.vocabulary, self.eos)
        encoded = self._encoded(prompt, chosen, given)
        measured = yield from self.measuring(chosen, at_once=at_once)
        session = open_session(self, chosen, [encoded.tokens], Streams(chosen.settings.seed, (0,)), True, measured)
        session.transcripts[0].follow(given)
        start = run_start(self, chosen, encoded, run, lane).model_copy(update={"costs": measured.words})
        if fork_point is not None:
            start = start.model_copy(update={"fork": fork_point.event(self.pieces)})
        return Run(session, start, Recorder(start, self.pieces) if record else None)

    def _encoded(self, prompt: AnyPrompt, lane: Lane, given: Sequence[int] = ()) -> EncodedPrompt:
        """The prompt's tokens and those `given` after it. Raises `DraftscopeError` if they do not fit the models."""
        most = len(given) + lane.settings.max_new_tokens
        rendered, tokens = read_prompt(self, prompt, most, Chat.of(lane.settings), lane.info)
        return EncodedPrompt(prompt_text(self, prompt), rendered, [*tokens, *given])

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
            session = last(self._opening_batch(lane, [text.tokens for text in some], places), watch)
            starts = [
                run_start(self, lane, text, f"run {place}", "run") for text, place in zip(some, places, strict=True)
            ]
            yield from batch_events(session, starts, self.pieces, record)
            done(len(some))

    def start_batch(
        self, prompts: list[list[int]], settings: Settings, sequences: tuple[int, ...], ends: bool = True
    ) -> Session:
        """`opening_batch`, whose steps are all taken now."""
        return last(self.opening_batch(prompts, settings, sequences, ends))

    def opening_batch(
        self, prompts: list[list[int]], settings: Settings, sequences: tuple[int, ...], ends: bool = True
    ) -> Steps[Progress, Session]:
        """A bare session of several tokenised prompts; row b draws from stream `sequences[b]`. `ends`: EOS ends a
        text."""
        return (yield from self._opening_batch(Lane.of(self, settings), prompts, sequences, ends))

    def _opening_batch(
        self, lane: Lane, prompts: list[list[int]], sequences: tuple[int, ...], ends: bool = True
    ) -> Steps[Progress, Session]:
        measured = yield from self.measuring(lane, len(prompts))
        return open_session(self, lane, prompts, Streams(lane.settings.seed, sequences), ends, measured)

    def measuring(self, lane: Lane, batch: int = 1, at_once: bool = False) -> Steps[Progress, MeasuredPair]:
        """What the lane's drafter chooses by, measured now if it was not before. Each step says how far it is. With
        `at_once` it is presumed where it was not measured."""
        info, settings = lane.info, lane.settings
        costs = tree = None
        if info.chooses_cost(settings):
            costs = yield from self._costs(info.costed(settings), batch == 1, at_once)
        if info.chooses_shape(settings):
            tree_costs = yield from self._costs((info.costs_like,), True, at_once)
            costs = costs or tree_costs
            tree = yield from self._best_tree(lane, tree_costs)
        if isinstance(costs, PresumedCosts) and lane not in self._presumed:
            self._presumed.append(lane)
        return MeasuredPair(costs, tree)

    def measuring_presumed(self) -> Steps[Progress, None]:
        """Measures what runs have presumed, for the next ones. Ends at once where there is nothing."""
        while self._presumed:
            yield from self.measuring(self._presumed[0])
            del self._presumed[0]

    def _costs(
        self, names: tuple[str, ...], one_text: bool, at_once: bool
    ) -> Steps[Progress, Calibration | PresumedCosts]:
        """What rounds of the drafters `names` cost."""
        if not at_once or "calibration" in self.__dict__:
            return (yield from self.calibrated(names, one_text))
        measured = self._calibrating.get((names, one_text))
        return (measured.result if measured else None) or known_costs(self, names, one_text) or presumed(self)

    def encode(self, prompt: AnyPrompt, max_new_tokens: int = 1, chat: Chat = CHAT) -> list[int]:
        """The prompt's tokens, special ones included, by default in the model's chat template if it has one.

        Raises `DraftscopeError` for an empty prompt, or one that is too long together with its answer.
        """
        return read_prompt(self, prompt, max_new_tokens, chat)[1]

    @cached_property
    def calibration(self) -> Calibration:
        """The measured costs of rounds, for this pair on this machine. Measured now if not yet known: seconds."""
        return last(self.calibrated())

    def calibrated(self, names: Sequence[str] = (), one_text: bool = False) -> Steps[Progress, Calibration]:
        """The same in steps of a forward or a few rounds, perhaps of the drafters `names` and batches of one only. Each
        says how far it is."""
        if "calibration" in self.__dict__:
            return self.calibration
        measuring = partial(calibration_of, self, names=names, one_text=one_text)
        together = Together(lambda: with_progress(measuring, COSTS))
        calibration = yield from self._calibrating.setdefault((tuple(names), one_text), together).steps()
        if not names:
            self.calibration = calibration
        return calibration

    def known_costs(self, names: Sequence[str] = ()) -> Calibration | None:
        """The same where it was measured before, else None; nothing is measured."""
        return self.__dict__.get("calibration") or known_costs(self, names)

    def forget_costs(self) -> None:
        """Costs are read or measured again by whoever needs them next."""
        self.__dict__.pop("calibration", None)
        self._calibrating.clear()

    def verify_curve(self) -> Steps[None, VerifyCurve]:
        """v by rows: from the saved calibration, else measured once in a second or so, in steps of a forward."""
        return self._curve.steps()

    def drafters(self) -> list[Availability]:
        """Every known drafter, and whether this engine can run it."""
        return availability.availabilities(self)

    def with_tree(self, tree: Counts) -> DecodingEngine:
        """The same models; Sequoia drafts this tree, whichever would be the fastest."""
        engine = copy(self)
        engine._tree = tree
        return engine

    def close(self) -> None:
        """Gives back the number of threads that `load` changed, which is the whole process's.

        The engine still decodes afterwards, with that number of threads. Close several engines in reverse order.
        """
        if self._threads_before is not None:
            torch.set_num_threads(self._threads_before)
            self._threads_before = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _best_tree(self, lane: Lane, costs: Calibration | PresumedCosts) -> Steps[Progress, Counts]:
        """Sequoia's tree for this drafter, pair and machine, within the limits of its settings."""
        if self._tree is not None:
            return self._tree
        is_presumed = isinstance(costs, PresumedCosts)
        rates = ACCEPTED if is_presumed else (yield from self._rates_of(lane))
        size = lane.settings.options(TreeSizeOptions)
        limits = lane.info.name, lane.sampling, size.tree_nodes, size.tree_depth, is_presumed
        if limits not in self._trees:
            cost = partial(costs.tree_cost, lane.info.costs_like)
            self._trees[limits] = best_tree(rates, size.tree_nodes, size.tree_depth, cost)
        return self._trees[limits]

    def _rates_of(self, lane: Lane) -> Steps[Progress, tuple[float, ...]]:
        """How often the lane's drafter is right, by rank; measured once."""
        measuring = partial(by_rank, self, lane.settings)
        together = Together(lambda: with_progress(measuring, RANKS))
        return (yield from self._rates.setdefault((lane.info.name, lane.sampling), together).steps())


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
