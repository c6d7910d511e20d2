"""The Python face: `lab = draftscope.load()`, `lab.decode(prompt)`, `lab.rounds(prompt)`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
import transformers

from draftscope import drafters, metrics, trace
from draftscope.chat import Chat
from draftscope.checkpoints import (
    EMBEDDED_DRAFT,
    EMBEDDED_TARGET,
    Loading,
    embedded,
    end_of_text,
    find,
    load_model,
    load_tokenizer,
    refuse_other_vocabulary,
)
from draftscope.devices import pick_device, pick_device_map, pick_dtype
from draftscope.drafters import DrafterInfo
from draftscope.errors import DraftscopeError
from draftscope.model import Model
from draftscope.record import Recorder
from draftscope.sampling import Sampling
from draftscope.session import Session, Step
from draftscope.settings import Settings
from draftscope.text import Ending, Pieces

CHAT = Chat()


def load(
    target: str | Path | None = None,
    draft: str | Path | None = None,
    dtype: str = "auto",
    device: str = "auto",
    threads: int | None = None,
    *,
    device_map: str | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
    progress: bool = False,
) -> Lab:
    """Loads a pair by hub id or folder; without arguments, the embedded pair. A target alone has no draft model.

    `device_map` spreads the target over all devices ('auto'); the draft lies where the target's inputs go. `revision`
    is the target's branch, tag or commit. `progress` shows bars while weights are fetched and read.

    Raises `DraftscopeError` for a missing or damaged checkpoint, unequal vocabularies, too little memory, or a device
    that is not there.
    """
    if threads is not None:
        if threads < 1:
            raise DraftscopeError(f"threads = {threads}: choose at least 1.")
        torch.set_num_threads(threads)
    spread, where = pick_device_map(device_map, device), pick_device(device)
    how = Loading(pick_dtype(dtype, where), where, spread, trust_remote_code, allow_pickle, progress)
    if target is None:
        target, draft = embedded(EMBEDDED_TARGET), draft or embedded(EMBEDDED_DRAFT)
    # Everything that can be said without the weights is said before they are fetched.
    first, second = find(target, how, revision), find(draft, how) if draft is not None else None
    tokenizer = load_tokenizer(first)
    if second is not None:
        refuse_other_vocabulary(tokenizer, load_tokenizer(second))
    big = load_model(first, how)
    small = load_model(second, replace(how, device=big.device, device_map=None)) if second is not None else None
    lab = Lab(big, small, tokenizer)
    lab.warm_up()
    return lab


@dataclass(frozen=True)
class Availability:
    """A drafter as this lab can offer it."""

    name: str
    title: str
    exact: bool
    available: bool
    why_not: str
    paper: str
    uses: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """A finished run: its text, and the events that everything else is folded from."""

    text: str
    token_ids: list[int]
    events: tuple[trace.AnyEvent, ...]

    @property
    def rounds(self) -> list[trace.Round]:
        return [event for event in self.events if isinstance(event, trace.Round)]

    @cached_property
    def metrics(self) -> metrics.Metrics:
        return metrics.fold(self.events)


class Run:
    """One lane: one prompt decoded by one drafter. Made by `Lab.session`."""

    def __init__(self, session: Session, start: trace.RunStart, recorder: Recorder | None) -> None:
        self._session = session
        self._start = start
        self._recorder = recorder
        self._rounds = 0

    @property
    def clock_ms(self) -> float:
        """Device-synchronised work of this lane so far; recording is not part of it."""
        return self._session.watch.now

    @property
    def text(self) -> str:
        return self._session.transcripts[0].text

    @property
    def token_ids(self) -> list[int]:
        return list(self._session.transcripts[0].tokens)

    def steps(self) -> Iterator[Step]:
        """The bare rounds, unrecorded."""
        for step in self._session.steps():
            self._rounds += 1
            yield step

    def events(self) -> Iterator[trace.AnyEvent]:
        """`RunStart`, `Prefill`, each `Round` (where recorded), `RunEnd`. Closing it stops within a round."""
        yield self._start
        self._session.prefill()
        yield trace.Prefill(
            run=self._start.run,
            lane=self._start.lane,
            tokens=self._start.prompt_tokens - 1,
            start=0.0,
            end=self._session.prefill_ms,
        )
        cut: str | None = None
        for step in self.steps():
            fed = step.fed[0]
            cut = fed.cut if fed else None
            if self._recorder is not None and (event := self._recorder.round(step)) is not None:
                yield event
        yield self._end(cut or "length")

    def cancel(self) -> trace.RunEnd:
        """The event that ends a run which is not finished."""
        return self._end("cancelled")

    def _end(self, reason: Any) -> trace.RunEnd:
        return trace.RunEnd(
            run=self._start.run,
            lane=self._start.lane,
            reason=reason,
            text=self.text,
            token_ids=self.token_ids,
            target_forwards=self._rounds,
            end=self.clock_ms,
        )


class Lab:
    """A target, perhaps a draft model, and their tokenizer, ready to decode."""

    def __init__(self, target: Model, draft: Model | None, tokenizer: Any) -> None:
        self.target = target
        self.draft = draft
        self.tokenizer = tokenizer
        self.pieces = Pieces(tokenizer)
        self.eos = end_of_text(target, tokenizer)

    def decode(self, prompt: str, drafter: str = "draft", record: bool = True, **settings: Any) -> Result:
        """Decodes `prompt` to its end. `settings` are the fields of `Settings` (temperature, gamma, seed, ...)."""
        run = self.session(prompt, Settings.of(drafter=drafter, **settings), record=record)
        events = tuple(run.events())
        return Result(run.text, run.token_ids, events)

    def rounds(self, prompt: str, drafter: str = "draft", **settings: Any) -> Iterator[trace.Round]:
        """Streams the rounds as they are decoded; closing the iterator stops decoding."""
        run = self.session(prompt, Settings.of(drafter=drafter, **settings))
        for event in run.events():
            if isinstance(event, trace.Round):
                yield event

    def session(self, prompt: str, settings: Settings, run: str = "run", lane: str = "run", record: bool = True) -> Run:
        """A run that has not begun. Everything that can be wrong with prompt and settings is said here."""
        info = drafters.find(settings.drafter)
        if info.needs_draft and self.draft is None:
            raise DraftscopeError(
                f"The drafter '{info.name}' needs a draft model; name one with --draft, or choose 'ngram'."
            )
        if (limited := self._cannot_branch(info)) is not None:
            raise DraftscopeError(f"{limited.limits} Instead of '{info.name}' choose 'draft' or 'ngram'.")
        tokens = self.encode(prompt, settings.max_new_tokens, Chat.of(settings))
        session = self.session_of([tokens], settings, (0,))
        recorder = Recorder(run, lane, 0, 0, settings.rule, self.pieces) if record else None
        return Run(session, self._run_start(info, prompt, tokens, settings, run, lane), recorder)

    def session_of(
        self, prompts: list[list[int]], settings: Settings, sequences: tuple[int, ...], ends: bool = True
    ) -> Session:
        """A bare session of several tokenised prompts; row b draws from stream `sequences[b]`. `ends` heeds EOS."""
        info = drafters.find(settings.drafter)
        nodes = info.nodes(settings)
        parts = drafters.Parts(
            settings=settings,
            sampling=Sampling.of(settings),
            batch=len(prompts),
            capacity=max(len(prompt) for prompt in prompts) + settings.max_new_tokens + nodes + 1,
            device=self.target.device,
            tokenizer=self.tokenizer,
            vocabulary=self.target.vocabulary,
            draft=self.draft,
        )
        ending = Ending(self.eos if ends else frozenset(), settings.stop, settings.max_new_tokens)
        return Session(self.target, info.create(parts), prompts, settings, self.pieces, ending, nodes, sequences)

    def encode(self, prompt: str, max_new_tokens: int = 1, chat: Chat = CHAT) -> list[int]:
        """The prompt's tokens, special ones included, by default in the model's chat template if it has one.

        Raises `DraftscopeError` for an empty prompt, or one that with its answer goes beyond the context.
        """
        if not prompt.strip():
            raise DraftscopeError("The prompt is empty; write at least a word to continue from.")
        room = min(model.context for model in (self.target, self.draft) if model is not None)
        if len(prompt) > 64 * room:
            raise DraftscopeError(
                f"The prompt has {len(prompt):,} characters and the models read {room:,} tokens; shorten it."
            )
        rendered = chat.render(self.tokenizer, prompt)
        text, special = (prompt, True) if rendered is None else (rendered, False)  # a template brings its own BOS
        tokens: list[int] = self.tokenizer(text, add_special_tokens=special)["input_ids"]
        if len(tokens) + max_new_tokens > room:
            most = room - len(tokens)
            remedy = f"ask for at most {most} new tokens or shorten it" if most > 0 else "shorten it"
            raise DraftscopeError(
                f"The prompt has {len(tokens):,} tokens and {max_new_tokens:,} more were asked for, "
                f"but the models' context holds {room:,}; {remedy}."
            )
        for model in (self.target, self.draft):
            if model is not None and model.seam and len(tokens) - 1 <= model.seam < len(tokens) + max_new_tokens:
                raise DraftscopeError(
                    f"'{model.name}' changes its rotary factors at {model.seam:,} tokens, and {len(tokens):,} with "
                    f"{max_new_tokens:,} more would cross that; stay below it or start with a longer prompt."
                )
        return tokens

    def drafters(self) -> list[Availability]:
        """Every known drafter, and whether this lab can run it."""
        return [
            Availability(
                name=info.name,
                title=info.title,
                exact=info.exact,
                available=not self._why_not(info),
                why_not=self._why_not(info),
                paper=info.paper,
                uses=info.uses,
            )
            for info in drafters.known().values()
        ]

    def _why_not(self, info: DrafterInfo) -> str:
        """Why this lab cannot run a drafter; empty where it can."""
        if info.needs_draft and self.draft is None:
            return "no draft model is loaded"
        limited = self._cannot_branch(info)
        return f"'{limited.name}' takes no trees" if limited else ""

    def _cannot_branch(self, info: DrafterInfo) -> Model | None:
        """The model that takes chains only, where the drafter would grow trees."""
        models = [model for model in (self.target, self.draft) if model is not None and not model.trees]
        return models[0] if models and "shape" in info.uses else None

    def warm_up(self) -> None:
        """A few rounds of everything that later runs measure, so that no first run pays for the libraries' set-up."""
        for name in ("plain", "draft") if self.draft is not None else ("plain",):
            self.decode("a b", drafter=name, max_new_tokens=8, raw=True, record=False)

    def _run_start(
        self, info: DrafterInfo, prompt: str, tokens: list[int], settings: Settings, run: str, lane: str
    ) -> trace.RunStart:
        used = [("target", self.target)] + ([("draft", self.draft)] if info.needs_draft and self.draft else [])
        return trace.RunStart(
            run=run,
            lane=lane,
            draftscope=own_version(),
            torch=torch.__version__,
            transformers=transformers.__version__,
            device=self._device_name(),
            dtype=str(self.target.dtype).removeprefix("torch."),
            threads=torch.get_num_threads(),
            revision=_revision(),
            models=[
                trace.ModelInfo(
                    role="target" if role == "target" else "draft",
                    name=model.name,
                    parameters=model.parameters,
                    layers=model.layers,
                    hidden=model.hidden,
                    hash=model.digest,
                )
                for role, model in used
            ],
            drafter=info.name,
            exact=info.exact,
            rule=settings.rule,
            seed=settings.seed,
            settings=settings.model_dump(mode="json"),
            prompt=prompt,
            rendered=Chat.of(settings).render(self.tokenizer, prompt) or "",
            prompt_tokens=len(tokens),
            prompt_last_raw=self.pieces.shown(tokens[-1]),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def _device_name(self) -> str:
        device = self.target.device
        return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


@lru_cache(maxsize=1)
def own_version() -> str:
    try:
        return version("draftscope")
    except PackageNotFoundError:
        return "0+source"


@lru_cache(maxsize=1)
def _revision() -> str:
    """The git revision of this code, where it runs from a checkout."""
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""
