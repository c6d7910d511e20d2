"""Servers that are asked together, and drafters here beside them: opened once, then raced, loaded or audited.

    with Field.open({"plain": "http://127.0.0.1:8100"}, engine) as field:
        for event in field.race(Race(field.prompts(["Explain gravity."], raw=False, tokens=64), request)):
            ...

`race`, `load` and `audit` are generators of events, with None while nothing comes. Stopped, they stop the servers too.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

from draftscope.base.costs import Calibration
from draftscope.base.errors import DraftscopeError
from draftscope.base.progress import Progress
from draftscope.base.steps import Steps, mapped_to
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.models.model import Model
from draftscope.servers import curve, lanes
from draftscope.servers.adapter import Request
from draftscope.servers.audit import audit_events
from draftscope.servers.audit.audit import AuditReport, audit_servers
from draftscope.servers.audit.audit_events import AuditProgress
from draftscope.servers.audit.plan import AUDIT_PROMPTS, Plan
from draftscope.servers.audit.text_writer import refuse_without_ids
from draftscope.servers.background import in_background
from draftscope.servers.bursts import Raw
from draftscope.servers.curve import LoadCurve
from draftscope.servers.engine_lane import EngineLane
from draftscope.servers.inside import live
from draftscope.servers.latency import loopback_jitter
from draftscope.servers.load_test import LoadPlan, LoadPoint, load
from draftscope.servers.programs.program_list import titled
from draftscope.servers.server_race import Race, RaceLane, RacePrompt, RaceResult, same_tokenizers
from draftscope.servers.traced import KnownProbabilities, Traced, traced
from draftscope.servers.wire import WireLimits
from draftscope.trace.events import AnyEvent

ENGINE = "draftscope"  # the kind of a lane that is decoded here


@dataclass(frozen=True)
class Field:
    """Lanes that answered, and why the others do not take part.

    `engine` are the models here, as far as they are the servers' own: it says prompts as tokens, computes the target's
    probability of each token, and its costs predict a load. `draft` is the servers' draft model, if it is loaded here.
    """

    lanes: Sequence[RaceLane]
    missing: Mapping[str, str]  # lane -> why it does not take part
    engine: DecodingEngine | None = None
    draft: Model | None = None

    @classmethod
    @contextmanager
    def open(
        cls,
        servers: Mapping[str, str],
        engine: DecodingEngine | None = None,
        drafters: Mapping[str, Settings] = {},
        *,
        models: Mapping[str, str] = {},
        limits: WireLimits = WireLimits(),  # noqa: B008 - frozen
        draft: Model | None = None,
    ) -> Generator[Field]:
        """`servers`: lane -> URL; `drafters`: lane -> settings of the engine here; `models`: lane -> the model to ask
        for. Closes the servers at the end. Raises `ServerError` if none of them answers."""
        with ExitStack() as opened:
            answering, missing = lanes.connect(servers, models, limits, opened.enter_context)
            if engine is not None:
                for name, settings in drafters.items():
                    answering.append(RaceLane(name, opened.enter_context(EngineLane(engine, settings))))
            yield cls(answering, missing, engine, draft)

    @property
    def servers(self) -> list[RaceLane]:
        """The lanes of other programs."""
        return [lane for lane in self.lanes if lane.server.identity.kind != ENGINE]

    @cached_property
    def jitter(self) -> float:
        """Seconds, of the loopback."""
        return loopback_jitter()

    @cached_property
    def strangers(self) -> Mapping[str, str]:
        """Lane -> why it cannot race: it has another tokenizer than the engine here, or than the first server."""
        return same_tokenizers(self.lanes, self._encode if self.engine is not None else None)

    def with_engine_of_servers(self) -> Field:
        """The same; without the engine here where every server has another tokenizer, so that its weights are others.

        Where no server tokenizes, each request is checked: one that is read as another number of tokens fails.
        """
        tokenizing = [lane for lane in self.servers if lane.server.identity.offers.tokenize]
        strangers = sum(lane.name in self.strangers for lane in tokenizing)
        return replace(self, engine=None, draft=None) if tokenizing and strangers == len(tokenizing) else self

    def prompts(self, texts: Sequence[str], raw: bool, tokens: int) -> list[RacePrompt]:
        """The tokens of each text, in the chat template unless `raw`, with room for `tokens` more."""
        return lanes.prompts(texts, self.lanes, self.engine, raw, tokens)

    def prompt(self, text: str, settings: Settings) -> RacePrompt:
        """The tokens of a text; in the chat template where there is one and it is wanted."""
        try:
            return self.prompts([text], settings.raw, settings.max_new_tokens)[0]
        except DraftscopeError:
            if self.engine is not None or settings.raw:
                raise
            return self.prompts([text], True, settings.max_new_tokens)[0]  # a model without a chat template

    def race(
        self, plan: Race, run: str = "race", standing: RaceResult | None = None, known: KnownProbabilities | None = None
    ) -> Steps[AnyEvent | None, None]:
        """A race as the events of a trace. `standing` and what the target here says of each token are filled."""
        standing, known = standing or RaceResult(), {} if known is None else known
        standing.dropped.update(self.strangers)
        for lane in self.lanes:
            if isinstance(lane.server, EngineLane):
                yield from mapped_to(lane.server.measuring(plan.request), None)
        yield from traced(Traced(run, self.lanes, self.missing, plan, self.engine, self.draft, standing, known))

    def inside(self, prompt: RacePrompt, request: Request, run: str) -> Steps[AnyEvent | None, None]:
        """One answer of the only server, with the rounds that its recorder saw. Raises `ServerError` without one."""
        yield from live.written(self.lanes[0], prompt, request, run, self._raw)

    def opened(self, request: str, run: str) -> Iterator[AnyEvent]:
        """The rounds that the only server's recorder has of an earlier request."""
        yield from live.opened(self.lanes[0], request, run, self._raw)

    def load(self, plan: LoadPlan, points: list[LoadPoint] | None = None) -> Steps[LoadCurve | Progress | None, None]:
        """All servers at each concurrency, as a document that grows; `points` is filled. Predicted from the calibration
        here, which is measured before if it was not. Raises `DraftscopeError` with a lane of the engine here."""
        if self.servers != list(self.lanes):
            raise DraftscopeError("--engine takes one request at a time and has no place under load; leave it out.")
        start = curve.empty_curve(self.lanes, self.missing, plan)
        yield start
        costs = yield from self._costs()
        yield from curve.stream_curve(start, self._kept(in_background(load(self.lanes, plan)), points), costs)

    def refuse_unauditable(self) -> None:
        """Raises `DraftscopeError` where a server is missing, or cannot be audited whatever it is started with."""
        for why in self.missing.values():
            raise DraftscopeError(why)
        for lane in self.lanes:
            refuse_without_ids(lane.server)

    def audit(
        self, plan: Plan, texts: Sequence[str] = AUDIT_PROMPTS, chat: bool = False
    ) -> Steps[AuditProgress | None, AuditReport]:
        """The first server against the target here, or without an engine against the second server, as it proceeds."""
        self.refuse_unauditable()
        server, plain = self.lanes[0].server, self.lanes[1].server if len(self.lanes) > 1 else None
        engine = self.engine if plain is not None else self._engine()
        against = f"{self.lanes[1].name}, a server" if engine is None or plain else f"{engine.target.name}, loaded here"
        start = audit_events.initial(self.lanes[0].name, titled(server.identity), against, plan)
        return (yield from audit_events.stream_audit(start, audit_servers(server, plain, engine, plan, texts, chat)))

    def _engine(self) -> DecodingEngine:
        """The models here, against which a server is audited."""
        if self.engine is None:
            raise DraftscopeError(
                f"'{self.lanes[0].name}' has another tokenizer than the target that is loaded here; load its model "
                "under Other models, or audit it against a plain server of the same model."
            )
        return self.engine

    def _costs(self) -> Steps[Progress, tuple[Calibration, str] | None]:
        """The calibration of the models here, and the drafter whose costs stand for a server's."""
        if self.engine is None:
            return None
        calibration = yield from self.engine.calibrated()
        drafter = curve.drafter_here(calibration)
        return None if drafter is None else (calibration, drafter)

    @property
    def _raw(self) -> Raw | None:
        return None if self.engine is None else self.engine.pieces.shown

    def _encode(self, text: str) -> tuple[int, ...]:
        assert self.engine is not None
        return tuple(self.engine.tokenizer.encode(text, add_special_tokens=False))

    @staticmethod
    def _kept(measured: Iterator[LoadPoint | None], points: list[LoadPoint] | None) -> Iterator[LoadPoint | None]:
        for point in measured:
            if point is not None and points is not None:
                points.append(point)
            yield point


def request_of(settings: Settings, tokens: int | None = None, fresh: bool = True) -> Request:
    """What is asked of every lane; the prompts' own tokens take the place of its ids."""
    return Request(
        ids=(0,), max_tokens=settings.max_new_tokens if tokens is None else tokens, seed=settings.seed,
        temperature=settings.temperature, top_k=settings.top_k, top_p=settings.top_p, min_p=settings.min_p,
        stop=settings.stop, fresh=fresh,
    )  # fmt: skip
