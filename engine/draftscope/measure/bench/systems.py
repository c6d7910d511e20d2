"""What is measured: a system writes a case. Here the interface and our own drafters; others are in `peers`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from time import perf_counter
from typing import Any

from draftscope import drafters
from draftscope.base.common_settings import LOSSY
from draftscope.base.errors import DraftscopeError
from draftscope.decode.availability import is_detour
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.lane import Lane
from draftscope.drafters.options import TreeShape
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.measure.bench.round_arrays import KeptStep, timed_steps

OWN = "draftscope"


@dataclass(frozen=True)
class Label:
    """The system of a row. `drafter` is empty for another program; `gamma` and `shape` are given if the drafter reads
    them, `rule` if it is not block verification, `length` if it is chosen while drafting."""

    system: str
    drafter: str = ""
    gamma: int | None = None
    shape: TreeShape | None = None
    rule: str | None = None
    length: str | None = None

    @property
    def lossy(self) -> bool:
        """Does the rule change the output's distribution by design?"""
        return self.rule in LOSSY

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the label stands for."""
        given = {"gamma": self.gamma, "shape": self.shape, "rule": self.rule, "draft_length": self.length}
        return {"drafter": self.drafter} | {name: value for name, value in given.items() if value is not None}

    @property
    def name(self) -> str:
        """The name in tables and plots."""
        shape = f" {','.join(map(str, self.shape))}" if self.shape else ""
        length = f" by {self.length}" if self.length else ""
        gamma = f", gamma {self.gamma}{length}" if self.gamma is not None else ""
        rule = f", {self.rule}{' (lossy)' if self.lossy else ''}" if self.rule else ""
        return f"{self.drafter or self.system}{shape}{gamma}{rule}"


PLAIN = Label(OWN, "plain")


@dataclass(frozen=True)
class Case:
    """B prompts (token ids) to continue together; `number` distinguishes the cases of one kind."""

    kind: str
    number: int
    prompts: tuple[tuple[int, ...], ...]  # [B]
    temperature: float
    context: int | None = None  # tokens of every prompt, if the plan sets them

    @property
    def batch(self) -> int:
        return len(self.prompts)

    @property
    def cell(self) -> tuple[float, int, int | None]:
        """The cell of the plan: everything except the text."""
        return self.temperature, self.batch, self.context


@dataclass(frozen=True)
class WrittenBatch:
    """The token ids that a system wrote, for each sequence [B]. Our own systems also have rounds, and the size of all
    models' caches and of the draft models' caches; `before_ms` is what set-up and prefill took."""

    ids: list[list[int]]
    kept: Sequence[KeptStep] = ()
    cache_bytes: int | None = None
    draft_bytes: int | None = None
    before_ms: float = 0.0


Write = Callable[[], WrittenBatch]


class System(ABC):
    """Something that continues prompts. `note` may say with which settings."""

    label: Label
    batches = True  # it can decode several sequences together
    note = ""

    def measuring(self, case: Case, tokens: int) -> Iterator[object]:  # noqa: ARG002 - most choose by nothing
        """Steps of what must be measured before the first run of `case`, if anything."""
        return iter(())

    @abstractmethod
    def prepare(self, case: Case, tokens: int, seed: int) -> Write:
        """A run of `case`. Calling the result is timed; preparing it is not."""


class DrafterSystem(System):
    """One of this project's drafters, through the engine's own loop."""

    def __init__(
        self,
        engine: DecodingEngine,
        label: Label,
        watch: Callable[[], None] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """`watch` is called every round and may raise, which ends a run that nobody waits for any more. `settings` are
        those of a label that is only a name."""
        self.label = label
        self._lab = engine
        self._watch = watch
        self._settings = label.settings if settings is None else settings

    def measuring(self, case: Case, tokens: int) -> Iterator[object]:
        return self._lab.measuring(Lane.of(self._lab, self._applied(case, tokens)), case.batch)

    def _applied(self, case: Case, tokens: int, seed: int = 0) -> Settings:
        more = {"temperature": case.temperature, "max_new_tokens": tokens, "seed": seed}
        return Settings.of(**{**self._settings, **more})

    def prepare(self, case: Case, tokens: int, seed: int) -> Write:
        settings = self._applied(case, tokens, seed)
        prompts, streams = [list(prompt) for prompt in case.prompts], tuple(range(case.batch))
        sizes = self._sizes(case, tokens)

        def write() -> WrittenBatch:
            began = perf_counter()
            session = self._lab.start_batch(prompts, settings, streams, ends=False)
            session.prefill()
            before_ms = 1e3 * (perf_counter() - began)
            kept = []
            for _, step in timed_steps(session):
                kept.append(step)
                if self._watch is not None:
                    self._watch()
            return WrittenBatch([transcript.tokens for transcript in session.transcripts], kept, *sizes, before_ms)

        return write

    def _sizes(self, case: Case, tokens: int) -> tuple[int | None, int | None]:
        """What every model that takes part keeps of prompt and continuation, and what the draft models keep of it.

        None for a drafter with a head, whose shape says nothing of what it caches, and for a draft that counts other
        tokens; the latter where no model drafts.
        """
        info, engine = drafters.find(self._settings["drafter"]), self._lab
        if info.needs_head or (info.needs_text_draft and engine.foreign is not None):
            return None, None
        drafts = [engine.draft] if info.needs_draft and engine.draft is not None else []
        if info.needs_text_draft and engine.text_draft is not None:
            drafts.append(engine.text_draft.model)
        if "inner" in info.uses:
            drafts += engine.smaller
        longest = max(len(prompt) for prompt in case.prompts) + tokens
        kept = case.batch * sum(model.kept_bytes(longest) for model in drafts)
        return case.batch * engine.target.kept_bytes(longest) + kept, kept if drafts else None


def refuse_unknown(names: Sequence[str]) -> None:
    """`DraftscopeError` for a drafter that is not there, or that has nothing to draft in a benchmark."""
    for name in names:
        if "typed" in drafters.find(name).uses:
            raise DraftscopeError(f"The drafter '{name}' waits for a person, who cannot be benchmarked; leave it out.")


def drafter_systems(engine: DecodingEngine, plan: BenchPlan) -> tuple[list[System], list[str]]:
    """Plain decoding first, then the plan's drafters; and a note that names those that this pair cannot run.

    A plan without drafters takes all but synthetic ones, whose advance knowledge costs time in a whole run, and those
    that draft through text although the draft has the target's tokenizer.
    """
    known = drafters.known()
    sensible = [name for name, info in known.items() if not info.synthetic and not is_detour(engine, info)]
    names = plan.drafters or sensible
    named = [info for info in engine.drafters() if info.name in names]
    able = [info for info in named if info.available and "typed" not in info.uses]
    labels = [PLAIN]
    for info in able:
        gammas = plan.gammas if "gamma" in info.uses else (None,)
        shape = drafters.find(info.name).bench_shape if "shape" in info.uses else None
        rules = [None if rule == "block" else rule for rule in plan.rules] if "rule" in info.uses else [None]
        lengths = [None if length == "fixed" else length for length in plan.lengths]
        combined = product(gammas, rules, lengths if "draft_length" in info.uses else [None])
        labels += [
            Label(OWN, info.name, gamma, shape, *rest) for gamma, *rest in combined if info.name != PLAIN.drafter
        ]
    unable = ", ".join(f"{info.name} ({info.why_not})" for info in named if not info.available)
    return [DrafterSystem(engine, label) for label in labels], [f"Drafters left out: {unable}."] if unable else []


class MissingPeerError(Exception):
    """One sentence: the program, why it cannot run, and what to do about it."""


def needed(module: str, peer: str, command: str) -> Any:
    """A module of a program's package. Raises `MissingPeerError` with the command that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise MissingPeerError(f"{peer} was skipped: '{module}' is not installed; {command}.") from None
    except (ImportError, OSError, RuntimeError) as error:
        reason = str(error).split("\n")[0][:160].rstrip(".")
        raise MissingPeerError(
            f"{peer} was skipped: '{module}' does not load ({reason}); repair or uninstall it."
        ) from None
