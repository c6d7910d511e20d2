"""A race of servers as a trace: bursts as they arrive, or a recorder's rounds; then what was measured, counted and
computed of each lane.

The trace shows the first counted answer of each lane to the first prompt; `Served` covers all answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from draftscope.base.errors import DraftscopeError
from draftscope.base.steps import Cancelled, Steps
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.prompt import EncodedPrompt
from draftscope.models.model import Model
from draftscope.servers.adapter import Counted, Identity, ServerError
from draftscope.servers.background import in_background
from draftscope.servers.bursts import UNKNOWN, Bursts
from draftscope.servers.engine_lane import EngineLane
from draftscope.servers.forced import Forced, forced
from draftscope.servers.inside.live import RecordedAnswer, end_of, pieces, reason_of, start_of
from draftscope.servers.latency import Arrival, near_gap
from draftscope.servers.programs.program_list import title_of
from draftscope.servers.server_race import Answer, Heard, Race, RaceLane, RaceResult, race
from draftscope.servers.summary import LaneSummary, added, summaries
from draftscope.trace import events as trace
from draftscope.trace.events import AnyEvent, EndReason, RunStart, Served, ServerInfo
from draftscope.verify.sampling import Sampling

KnownProbabilities: TypeAlias = dict[tuple[str, int, int], Forced]  # by lane, prompt and repeat


@dataclass(frozen=True)
class Traced:
    """A race whose trace is wanted. `engine` has the servers' tokenizer, and their weights as far as is known."""

    run: str
    lanes: Sequence[RaceLane]
    missing: Mapping[str, str]  # lane -> why it does not take part
    plan: Race
    engine: DecodingEngine | None = None
    draft: Model | None = None  # the servers' drafter, known here
    standing: RaceResult = field(default_factory=RaceResult)
    known: KnownProbabilities = field(default_factory=dict)  # filled at the end

    @property
    def sampling(self) -> Sampling:
        request = self.plan.request
        return Sampling(request.temperature, request.top_k, request.top_p, request.min_p)

    def summaries(self) -> list[LaneSummary]:
        return summaries(self.lanes, self.plan, self.standing, self.known)


def traced(task: Traced) -> Steps[AnyEvent | None, None]:
    """Every event of the race as it happens, and None while nothing does. Once `Cancelled` is thrown in, its lanes
    still get their ends."""
    live = {lane.name: _Live(task, lane) for lane in task.lanes}
    yield from (lane.start() for lane in live.values())
    for name, why in task.missing.items():
        yield _start(task, name, None)
        yield _end(task, name, None, "error", why)
    racing, stopped = in_background(race(task.lanes, task.plan, task.standing)), False
    try:
        for item in racing:
            if isinstance(item, Answer):
                live[item.lane].answered(item)
                yield from live[item.lane].ended(item)
                yield from _served(task, item)
            elif item is not None:
                yield from live[item[0]].heard(item)
            else:
                yield from (event for lane in live.values() for event in lane.idle())
                yield None
    except Cancelled:
        stopped = True
    finally:
        racing.close()
    yield from (event for lane in live.values() for event in lane.left(task.standing.dropped))
    yield from _computed(task, live, stopped)


class _Live:
    """One lane while it is shown: by its bursts, or by the rounds that a recorder inside it sends."""

    def __init__(self, task: Traced, lane: RaceLane) -> None:
        """Raises `ServerError` where a recorder is to be watched and there is none."""
        self.task, self.lane = task, lane
        self.offers = lane.server.identity.offers
        self.warm: list[Arrival] = []
        self.raw = task.engine.pieces.shown if task.engine is not None else None
        self.recorded = self._recorded()
        self.bursts: Bursts | RecordedAnswer | None = self.recorded
        self.over = False
        self.wrong = ""  # why no more of its rounds are shown
        self.first: Answer | None = None

    def _recorded(self) -> RecordedAnswer | None:
        name, prompt = self.task.plan.recorded.get(self.lane.name), self.task.plan.prompts[0]
        if name is None:
            return None
        raw = self.raw or pieces(self.lane.server, prompt.ids[-1])
        request = replace(self.task.plan.request, ids=prompt.ids, name=name)
        recorded = RecordedAnswer(self.lane.server, request, self.task.run, self.lane.name, raw)
        recorded.read()  # refuses where nothing is recorded, before anything is shown
        return recorded

    def start(self) -> RunStart:
        start = _first(self.task, self.lane)
        if self.recorded is None or start.server is None:
            return start
        last = self.recorded.raw(self.task.plan.prompts[0].ids[-1])
        server = start.server.model_copy(update={"inside": True})
        return start.model_copy(update={"server": server, "prompt_last_raw": last})

    def heard(self, heard: Heard) -> Iterator[AnyEvent | None]:
        _, prompt, repeat, chunk, at = heard
        if not self.offers.ids_out and chunk.text:
            chunk = replace(chunk, ids=(UNKNOWN,))
        if repeat == -1:
            self.warm.append(Arrival(at, len(chunk.ids)))
        if (prompt, repeat) == (0, 0):
            yield from self._watched(self._bursts().take(chunk, at))

    def _watched(self, events: Iterable[AnyEvent | None]) -> Iterator[AnyEvent | None]:
        """Up to the first round that the recorder lacks or that cannot be drawn; why, stands at the lane's end."""
        if self.wrong:
            return
        try:
            yield from events
        except ServerError as error:
            self.wrong = str(error)

    def _bursts(self) -> Bursts | RecordedAnswer:
        if self.bursts is None:
            near = near_gap(self.warm, self.offers.bursts_are_chunks, self.task.plan.jitter)
            self.bursts = Bursts(self.task.run, self.lane.name, near, self.raw)
        return self.bursts

    def idle(self) -> Iterator[AnyEvent | None]:
        if self.bursts is not None and not self.over:
            yield from self._watched(self.bursts.flush())

    def answered(self, answer: Answer) -> None:
        if (answer.prompt, answer.repeat) == (0, 0):
            self.first = answer

    def ended(self, answer: Answer) -> Iterator[AnyEvent | None]:
        """The end of the shown answer."""
        if self.over or answer is not self.first:
            return
        self.over = True
        yield from self._watched(self._bursts().end())
        wrong = answer.failure or self.wrong
        reason: EndReason = "error" if wrong else reason_of(answer.finish, self.task.plan.request)
        yield _end(self.task, self.lane.name, self.bursts, reason, wrong)

    def left(self, dropped: Mapping[str, str]) -> list[AnyEvent]:
        """The end of a lane that has none yet: it failed before it was shown, or somebody has cancelled."""
        if self.over:
            return []
        self.over = True
        left = [] if isinstance(self.bursts, RecordedAnswer) or self.bursts is None else self.bursts.end()
        why = dropped.get(self.lane.name, "")
        return [*left, _end(self.task, self.lane.name, self.bursts, "error" if why else "cancelled", why)]


def _first(task: Traced, lane: RaceLane) -> RunStart:
    """The start of a lane that answers: the engine in this process says more of itself than another program does."""
    about, plan = lane.server.identity, task.plan
    if not isinstance(lane.server, EngineLane):
        return _start(task, lane.name, about)
    prompt = plan.prompts[0]
    rendered = prompt.rendered if prompt.rendered != prompt.text else ""
    read = EncodedPrompt(prompt.text, rendered, list(prompt.ids))
    start = lane.server.start(read, plan.request, task.run, lane.name)
    settings = start.settings | {"repeats": plan.repeats}
    return start.model_copy(update={"server": _info(task, about), "settings": settings})


def _start(task: Traced, lane: str, about: Identity | None) -> RunStart:
    request = task.plan.request
    settings = {
        "temperature": request.temperature, "top_k": request.top_k, "top_p": request.top_p, "min_p": request.min_p,
        "seed": request.seed, "max_new_tokens": request.max_tokens, "stop": list(request.stop),
        "repeats": task.plan.repeats,
    }  # fmt: skip
    return start_of(task.run, lane, task.plan.prompts[0], settings, _info(task, about))


def _info(task: Traced, about: Identity | None) -> ServerInfo:
    jitter = 1e3 * task.plan.jitter
    if about is None:
        return ServerInfo(program="", jitter_ms=jitter)
    return ServerInfo(
        program=about.kind,
        title=title_of(about.kind),
        version=about.version or "",
        model=about.model,
        bursts="chunks" if about.offers.bursts_are_chunks else "gaps",
        jitter_ms=jitter,
    )


def _end(
    task: Traced, lane: str, bursts: Bursts | RecordedAnswer | None, reason: EndReason, message: str
) -> trace.RunEnd:
    return end_of(bursts or Bursts(task.run, lane, -1.0, None), reason, message)


def _served(task: Traced, answer: Answer) -> list[Served]:
    """What is known of a lane after one of its answers."""
    counted = added([earlier.counted for earlier in task.standing.of(answer.lane) if earlier.counted])
    return [served(task.run, answer.lane, task.standing.of(answer.lane), counted, ())]


def served(run: str, lane: str, answers: Sequence[Answer], counted: Counted | None, notes: Sequence[str]) -> Served:
    """The figures of a lane's answers so far."""
    good = [answer for answer in answers if not answer.failure]
    gaps = [gap for answer in good for gap in answer.latency.icl]
    bursts = [size for answer in good for size in answer.latency.bursts]
    said = counted or Counted()
    return Served(
        run=run, lane=lane, failed=len(answers) - len(good), tokens=[answer.latency.tokens for answer in good],
        seconds=[answer.latency.total for answer in good],
        ttft_ms=[1e3 * answer.latency.ttft for answer in good if answer.latency.ttft is not None],
        tpot_ms=[1e3 * answer.latency.tpot for answer in good if answer.latency.tpot is not None],
        gap_p50_ms=1e3 * float(np.percentile(gaps, 50)) if gaps else None,
        gap_p99_ms=1e3 * float(np.percentile(gaps, 99)) if gaps else None,
        per_burst=sum(bursts) / len(bursts) if bursts else None, rounds=said.rounds, drafted=said.drafted,
        accepted=said.accepted, by_position=list(said.by_position), notes=list(notes),
    )  # fmt: skip


def _computed(task: Traced, live: Mapping[str, _Live], stopped: bool) -> Iterator[AnyEvent]:
    """After the race, so that nothing is computed while something is timed."""
    if task.engine is not None and not stopped:
        task.known.update(probabilities(task.engine.target, task))
    rows = {row.lane: row for row in task.summaries()} if task.standing.answers else {}
    for name, lane in live.items():
        if lane.first is None:
            continue
        row = rows[name]
        yield served(task.run, name, task.standing.of(name), row.counted, row.notes)
        said = task.known.get((name, 0, 0))
        if task.engine is None or said is None or lane.bursts is None or tuple(lane.bursts.tokens) != lane.first.ids:
            continue
        yield trace.TargetProbs(
            run=task.run, lane=name, target=task.engine.target.name, p=list(said.p), best=list(said.best),
            log_p=row.log_p,
        )  # fmt: skip
        if task.draft is not None and lane.recorded is None and row.counted is not None and row.counted.drafted:
            q = forced(task.draft, task.plan.prompts[0].ids, lane.first.ids, task.sampling)
            yield trace.DraftProbs(run=task.run, lane=name, draft=task.draft.name, q=list(q.p), best=list(q.best))


def probabilities(target: Model, task: Traced) -> KnownProbabilities:
    """p of every token of each complete answer, from the weights here."""
    known: KnownProbabilities = {}
    for answer in task.standing.answers:
        if answer.complete and not answer.failure:
            prompt = task.plan.prompts[answer.prompt].ids
            try:
                known[answer.lane, answer.prompt, answer.repeat] = forced(target, prompt, answer.ids, task.sampling)
            except DraftscopeError as error:
                task.standing.dropped.setdefault(answer.lane, f"wrote what is not of the target here: {error}")
    return known
