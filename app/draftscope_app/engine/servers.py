"""Servers of other programs, asked by the engine process: a race, an audit, a load. Runs where the models are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from draftscope.base.errors import DraftscopeError
from draftscope.base.steps import Steps
from draftscope.drafters.settings import Settings
from draftscope.trace.events import AnyEvent, Record
from draftscope_app.engine.jobs import AuditJob, LoadJob, RaceJob

if TYPE_CHECKING:
    from draftscope.base.costs import Calibration
    from draftscope.decode.engine import DecodingEngine
    from draftscope.models.model import Model
    from draftscope.servers.adapter import Request
    from draftscope.servers.audit.asked import Plan
    from draftscope.servers.race import Lane, Prompt

SILENT_S = 60.0  # until a server is given up
SECONDS = 300.0  # of an audit's sampling, at most
POINT_S = 5.0  # of each point of a load


def steps(engine: DecodingEngine, job: RaceJob | AuditJob | LoadJob) -> Steps[AnyEvent | Record | None, None]:
    """Every step of a job with servers. Raises `DraftscopeError` where none of them can be asked."""
    from draftscope.servers.lanes import connect, engine_lanes
    from draftscope.servers.wire import Limits

    with ExitStack() as opened:
        lanes, missing = connect(job.urls, {}, Limits(silent=SILENT_S), opened.enter_context)
        here = {name: settings for name, settings in job.lanes.items() if name not in job.urls}
        lanes += engine_lanes(engine, here, opened.enter_context)
        settings = next(iter(job.lanes.values()))
        match job:
            case RaceJob():
                yield from _raced(engine, job, lanes, missing, settings)
            case LoadJob():
                yield from _loaded(engine, job, lanes, missing, settings)
            case AuditJob():
                for why in missing.values():
                    raise DraftscopeError(why)
                yield from _audited(engine, lanes, settings, job.samples)


def _raced(
    engine: DecodingEngine, job: RaceJob, lanes: list[Lane], missing: Mapping[str, str], settings: Settings
) -> Steps[AnyEvent | None, None]:
    from draftscope.servers import race
    from draftscope.servers.latency import loopback_jitter
    from draftscope.servers.traced import Traced, traced

    own = engine if _same_tokenizer(engine, lanes) else None
    standing = race.Standing(dropped=race.same_tokenizers(lanes, _encode(own) if own else None))
    prompt = _prompt(job.prompt, lanes, own, settings)
    plan = race.Race([prompt], _request(settings), job.repeats, loopback_jitter())
    yield from traced(Traced(job.id, lanes, missing, plan, own, _draft(own), standing))


def _request(settings: Settings) -> Request:
    """What is asked of every lane; the prompt's own tokens take the place of its ids."""
    from draftscope.servers.adapter import Request

    return Request(
        ids=(0,), max_tokens=settings.max_new_tokens, seed=settings.seed, temperature=settings.temperature,
        top_k=settings.top_k, top_p=settings.top_p, min_p=settings.min_p, stop=settings.stop,
    )  # fmt: skip


def _audited(engine: DecodingEngine, lanes: list[Lane], settings: Settings, samples: int) -> Steps[Record | None, None]:
    """The first lane's server, against the second's, or against the target that is loaded here."""
    from draftscope.servers.audit import audit as audits
    from draftscope.servers.audit import told
    from draftscope.servers.audit.asked import Plan
    from draftscope.servers.audit.prompts import AUDIT_PROMPTS
    from draftscope.servers.audit.writer import refuse_without_ids
    from draftscope.verify.sampling import Sampling

    server, plain = lanes[0].server, lanes[1].server if len(lanes) > 1 else None
    for each in (server, plain):
        refuse_without_ids(each)
    plan = Plan(Sampling.of(settings), samples=samples, seconds=SECONDS, seed=settings.seed)
    ids = _audit_prompts(engine, lanes, plan, plain is not None)
    name = server.identity.sentence

    def run(watch: audits.Watch) -> audits.Report:
        if plain is None:
            return audits.audit(server, server.identity.kind, engine, AUDIT_PROMPTS, ids, plan, None, watch, name)
        return audits.audit_without_weights(
            server, plain, AUDIT_PROMPTS, ids, plan, watch, name, plain.identity.url, server.detokenize
        )

    about = " ".join(filter(None, (server.identity.kind, server.identity.version)))
    against = f"{lanes[1].name}, a server" if plain is not None else f"{engine.target.name}, loaded here"
    yield from told.told(told.first(lanes[0].name, about, against, plan), run)


def _loaded(
    engine: DecodingEngine, job: LoadJob, lanes: list[Lane], missing: Mapping[str, str], settings: Settings
) -> Steps[Record | None, None]:
    """The servers at each concurrency; predicted from the calibration here where the target may be the same."""
    from draftscope.servers.curve import curves, first, watched
    from draftscope.servers.latency import loopback_jitter
    from draftscope.servers.load import LoadPlan

    own = engine if _same_tokenizer(engine, lanes) else None
    prompt = _prompt(job.prompt, lanes, own, settings)
    plan = LoadPlan([prompt], _request(settings), job.points, POINT_S, jitter=loopback_jitter())
    start = first(lanes, missing, plan)
    yield start
    costs = yield from _costs(own)
    yield from curves(start, watched(lanes, plan), costs)


def _costs(engine: DecodingEngine | None) -> Steps[None, tuple[Calibration, str] | None]:
    """The calibration of the models here, measured now if it was not before, before a server is busy."""
    from draftscope.servers.curve import drafter_here

    if engine is None:
        return None
    calibration = yield from engine.calibrated()
    drafter = drafter_here(calibration)
    return None if drafter is None else (calibration, drafter)


def _audit_prompts(engine: DecodingEngine, lanes: list[Lane], plan: Plan, by_server: bool) -> list[tuple[int, ...]]:
    from draftscope.decode.prompt import read_prompt
    from draftscope.models.loading.chat import Chat
    from draftscope.servers.audit.greedy import GREEDY_TOKENS
    from draftscope.servers.audit.prompts import AUDIT_PROMPTS

    if by_server:
        return [lanes[0].server.tokenize(text) for text in AUDIT_PROMPTS]
    if not _same_tokenizer(engine, lanes):
        raise DraftscopeError(
            f"'{lanes[0].name}' has another tokenizer than the target that is loaded here; load its model under Other "
            "models, or audit it against a plain server of the same model."
        )
    most = max(plan.tokens, GREEDY_TOKENS)
    return [tuple(read_prompt(engine, text, most, Chat(raw=True))[1]) for text in AUDIT_PROMPTS]


def _same_tokenizer(engine: DecodingEngine, lanes: list[Lane]) -> bool:
    """Whether the target here has the tokenizer of a server; its weights may then be the same.

    Where no server tokenizes, each request is checked: one that is read as another number of tokens fails.
    """
    from draftscope.servers.race import same_tokenizers

    others = [lane for lane in lanes if lane.server.identity.kind != "draftscope"]
    asked = [lane for lane in others if lane.server.identity.offers.tokenize]
    return not asked or len(same_tokenizers(asked, _encode(engine))) < len(asked)


def _encode(engine: DecodingEngine) -> Callable[[str], tuple[int, ...]]:
    return lambda text: tuple(engine.tokenizer.encode(text, add_special_tokens=False))


def _prompt(text: str, lanes: list[Lane], engine: DecodingEngine | None, settings: Settings) -> Prompt:
    """The prompt's tokens: in the chat template, where there is one and it is wanted."""
    from draftscope.servers.lanes import prompts

    if engine is None and not settings.raw:
        try:
            return prompts([text], lanes, None, False, settings.max_new_tokens)[0]
        except DraftscopeError:  # a model without a chat template
            return prompts([text], lanes, None, True, settings.max_new_tokens)[0]
    return prompts([text], lanes, engine, settings.raw, settings.max_new_tokens)[0]


def _draft(engine: DecodingEngine | None) -> Model | None:
    return engine.draft if engine is not None else None
