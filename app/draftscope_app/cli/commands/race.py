"""`draftscope race`: servers of other programs, and drafters here, on the same tokens; or all of them under load."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel, ConfigDict, Field

from draftscope.base.errors import DraftscopeError
from draftscope.base.steps import said
from draftscope_app.cli import options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, options_of, takes, whole
from draftscope_app.cli.terminal import interruptible
from draftscope_app.reports import races
from draftscope_app.reports.lanes import printable

if TYPE_CHECKING:
    from draftscope.base.costs import Calibration
    from draftscope.decode.engine import DecodingEngine
    from draftscope.drafters.settings import Settings
    from draftscope.models.model import Model
    from draftscope.servers.adapter import Request
    from draftscope.servers.forced import Forced
    from draftscope.servers.load import LoadPlan, LoadPoint
    from draftscope.servers.race import Lane, Prompt, Race, Standing
    from draftscope.servers.summary import LaneSummary
    from draftscope.trace.events import AnyEvent

SHOWN = 24  # tokens whose probability is printed; --save has all
LANES, LOAD = "Lanes", "Load"
RUN = "race"  # its name in a trace


class Options(BaseModel):
    """What `race` takes beside its prompt, the models here and the sampling."""

    model_config = ConfigDict(frozen=True)

    server: tuple[str, ...] = Field(
        (), description="a server, such as plain=http://127.0.0.1:8100; default: DRAFTSCOPE_SERVERS"
    )
    engine: tuple[str, ...] = Field((), description="a drafter here as another lane")
    served_model: tuple[str, ...] = Field(
        (), description="the model to ask a server for, where it does not say or has several"
    )
    timeout: float = Field(120.0, description="seconds of silence until a server is given up")
    cached: bool = Field(False, description="let servers use their prefix caches")
    prompts: Path | None = Field(None, description="prompts, one object a line")
    raw: bool = Field(False, description="no chat template")
    repeats: int = Field(3, description="counted repeats after the warm-up")
    concurrency: str = Field("", description="measure under load: requests at once, 1 to 64")
    arrivals: str = Field("closed", description="closed, or poisson:RATE with requests a second")
    seconds: float = Field(10.0, description="time for each point")
    good_ttft: float | None = Field(None, description="goodput: answers that begin within so many milliseconds")
    good_tpot: float | None = Field(None, description="goodput: answers with at most so many milliseconds per token")
    save: Path | None = Field(None, description="everything, token by token")
    trace: Path | None = Field(
        None, description="the first answer of each lane as a trace, which the page loads and 'draftscope replay' shows"
    )


_PANELS = dict.fromkeys(("server", "engine", "served_model", "timeout", "cached"), LANES)
_PANELS |= dict.fromkeys(("prompts", "raw"), options.PROMPT) | {"repeats": options.SAMPLING}
_PANELS |= dict.fromkeys(("save", "trace"), options.OUTPUT)
_METAVARS = {
    "server": "NAME=URL", "engine": "DRAFTER", "served_model": "LANE=MODEL", "timeout": "S", "prompts": "FILE.jsonl",
    "concurrency": "N,...", "arrivals": "HOW", "seconds": "S", "good_ttft": "MS", "good_tpot": "MS",
    "save": "FILE.json", "trace": "FILE.jsonl.gz",
}  # fmt: skip
OPTIONS = options_of(Options.model_fields, lambda name: _PANELS.get(name, LOAD), _METAVARS)

app = typer.Typer(add_completion=False)


@app.command()
@takes(given=OPTIONS, sampling=options.sampling_options(), loading=options.MODEL_OPTIONS)
def race(
    given: Given,
    sampling: Given,
    loading: Given,
    prompt: Annotated[str | None, typer.Argument(metavar="PROMPT", help="the text to continue")] = None,
    tokens: Annotated[
        int,
        typer.Option(
            "-n", "--tokens", parser=whole, metavar="N", help="tokens to write", rich_help_panel=options.SAMPLING
        ),
    ] = 64,
    json: options.Json = False,
) -> int:
    """Race servers of other programs, and drafters here, on the same tokens.

    Every lane gets the same token ids, seeds, temperature and stop strings; the turns alternate, and a warm-up is not
    counted. With --target the target's own probability of every token is computed from the weights here. With
    --concurrency each server is measured under load instead. The exit code is 1 if a lane failed.
    """
    from draftscope.servers.race import Race

    chosen = Options(**given)
    if chosen.repeats < 1:
        raise DraftscopeError(f"--repeats {chosen.repeats}: ask for 1 or more.")
    request = _request(options.settings(sampling), tokens, chosen.cached)
    texts, points, rate = _texts(prompt, chosen.prompts), _points(chosen.concurrency), _rate(chosen.arrivals)
    with ExitStack() as opened:
        field = _opened_field(opened, chosen, loading, texts, request)
        with interruptible() as interrupted:
            if points:
                return _load(field, _load_plan(field, chosen, points, rate, interrupted), chosen.save, json)
            plan = Race(field.prompts, request, chosen.repeats, field.jitter, interrupted)
            return _race(field, plan, chosen, json)


@dataclass(frozen=True)
class _Field:
    """What races, and on what."""

    lanes: Sequence[Lane]
    missing: Mapping[str, str]  # lane -> why it does not take part
    prompts: Sequence[Prompt]
    request: Request
    engine: DecodingEngine | None
    jitter: float
    draft: Model | None  # named on the command line: what the servers draft with


def _request(settings: Settings, tokens: int, cached: bool) -> Request:
    """What is asked of every lane; the prompts' own tokens take the place of its ids."""
    from draftscope.servers.adapter import Request

    return Request(
        ids=(0,), max_tokens=tokens, seed=settings.seed, temperature=settings.temperature, top_k=settings.top_k,
        top_p=settings.top_p, min_p=settings.min_p, stop=settings.stop, fresh=not cached,
    )  # fmt: skip


def _opened_field(opened: ExitStack, chosen: Options, loading: Given, texts: Sequence[str], request: Request) -> _Field:
    """The lanes that answer, and the prompts as tokens; `opened` closes what is opened here."""
    from draftscope.servers import lanes as entries
    from draftscope.servers.latency import loopback_jitter
    from draftscope.servers.wire import Limits

    named = entries.chosen(chosen.server, chosen.engine)
    models = entries.served(chosen.served_model, named)
    load, _ = options.models(loading)
    engine = opened.enter_context(options.load(load)) if loading or chosen.engine else None
    limits = Limits(silent=chosen.timeout, connect=min(chosen.timeout, Limits.connect))
    lanes, missing = entries.connect(named, models, limits, opened.enter_context)
    drafters = {name: options.settings({}, name, load) for name in chosen.engine}
    lanes += entries.engine_lanes(engine, drafters, opened.enter_context) if engine else []
    prompts = entries.prompts(texts, lanes, engine, chosen.raw, request.max_tokens)
    draft = engine.draft if engine and "draft" in loading else None
    return _Field(lanes, missing, prompts, request, engine, loopback_jitter(), draft)


def _load_plan(
    field: _Field, chosen: Options, points: tuple[int, ...], rate: float | None, interrupted: Callable[[], bool]
) -> LoadPlan:
    from draftscope.servers.load import LoadPlan

    return LoadPlan(
        field.prompts, field.request, points, chosen.seconds, rate, _seconds(chosen.good_ttft),
        _seconds(chosen.good_tpot), field.jitter, interrupted,
    )  # fmt: skip


def _race(field: _Field, plan: Race, chosen: Options, json: bool) -> int:
    from draftscope.servers.race import Standing, same_tokenizers
    from draftscope.servers.summary import saved, summaries
    from draftscope.servers.traced import Traced, traced
    from draftscope.trace import files

    standing = Standing(dropped=same_tokenizers(field.lanes, _tokenizer(field.engine)))
    _say({**field.missing, **standing.dropped})
    asked = Traced(RUN, field.lanes, field.missing, plan, field.engine, field.draft, standing)
    events: Iterable[AnyEvent] = said(traced(asked))
    if chosen.trace is not None:
        events = files.written(chosen.trace, events)
    with terminal.progress("answers") as bar:
        task = bar.add_task("Racing", total=len(field.lanes) * len(plan.prompts) * plan.repeats)
        for _ in events:
            bar.update(task, completed=len(standing.answers))
    known = asked.known
    rows = summaries(field.lanes, plan, standing, known)
    whole = saved(plan, standing, rows, known) | {"missing": dict(field.missing)}
    if chosen.save is not None:
        _save(chosen.save, whole)
    if json:
        print(jsonlib.dumps({name: value for name, value in whole.items() if name != "answers"}))
    else:
        _show(field, standing, rows, known)
    if plan.cancelled():
        raise KeyboardInterrupt
    failed = field.missing or standing.dropped or any(each.failure for each in standing.answers)
    return ExitCode.FAILED if failed else ExitCode.OK


def _show(
    field: _Field, standing: Standing, rows: Sequence[LaneSummary], known: Mapping[tuple[str, int, int], Forced]
) -> None:
    for lane in field.lanes:
        if answer := next(iter(standing.of(lane.name)), None):
            print(f"{lane.name}: {printable(answer.text.strip())}\n")
            if forced := known.get((lane.name, answer.prompt, answer.repeat)):
                tokens = zip(answer.ids, forced.p, strict=True)
                pieces = (
                    [f"{field.engine.pieces.shown(token)!r} {p:.2f}" for token, p in tokens] if field.engine else []
                )
                print(f"  p of its tokens: {printable(', '.join(pieces[:SHOWN]))}\n")
    terminal.show(terminal.Table(races.HEAD, races.rows(rows), races.NUMBERS))
    for line in races.LEGEND:
        print(line)
    print(f"The loopback's own jitter here: {field.jitter * 1e3:.2f} ms (99th percentile).")
    for row in rows:
        for note in row.notes:
            print(f"{row.lane}: {note}")


def _load(field: _Field, plan: LoadPlan, save: Path | None, json: bool) -> int:
    from draftscope.servers.curve import curves, first

    if any(lane.server.identity.kind == "draftscope" for lane in field.lanes):
        raise DraftscopeError("--engine takes one request at a time and has no place under load; leave it out.")
    _say(field.missing)
    points: list[LoadPoint] = []
    start = first(field.lanes, field.missing, plan)
    *_, curve = said(curves(start, _points_of(field, plan, points), _costs(field.engine)))
    whole = curve.model_dump(mode="json")
    if save is not None:
        _save(save, whole)
    if json:
        print(jsonlib.dumps(whole))
    else:
        head, rows, numbers = races.load_table(points, field.lanes[0].name, curve)
        terminal.show(terminal.Table(head, rows, numbers))
        for note in races.load_notes(points, curve):
            print(note)
    if plan.cancelled():
        raise KeyboardInterrupt
    return ExitCode.FAILED if field.missing or any(each.failed for each in points) else ExitCode.OK


def _points_of(field: _Field, plan: LoadPlan, points: list[LoadPoint]) -> Iterator[LoadPoint]:
    """Every point as it is measured, added to `points`."""
    from draftscope.servers.load import load

    with terminal.progress("points") as bar:
        task = bar.add_task("Loading", total=len(field.lanes) * len(plan.concurrency))
        for point in load(field.lanes, plan):
            points.append(point)
            yield point
            bar.advance(task)


def _costs(engine: DecodingEngine | None) -> tuple[Calibration, str] | None:
    """What a prediction rests on, where --target is given; measured now if it was not before."""
    from draftscope.servers.curve import drafter_here

    if engine is None:
        return None
    drafter = drafter_here(engine.calibration)
    return None if drafter is None else (engine.calibration, drafter)


def _tokenizer(engine: DecodingEngine | None) -> Callable[[str], tuple[int, ...]] | None:
    if engine is None:
        return None
    return lambda text: tuple(engine.tokenizer.encode(text, add_special_tokens=False))


def _texts(prompt: str | None, path: Path | None) -> list[str]:
    from draftscope.base import prompts

    if (prompt is None) == (path is None):
        raise DraftscopeError("Give a PROMPT or --prompts FILE.jsonl, one of the two.")
    if path is None:
        return [sys.stdin.read() if prompt == "-" else prompt or ""]
    found, notes = prompts.read(path)
    for note in notes:
        terminal.say(note)
    return [each.text for each in found]


def _points(given: str) -> tuple[int, ...]:
    try:
        return tuple(int(each) for each in given.split(",")) if given else ()
    except ValueError:
        raise DraftscopeError(
            f"--concurrency {given}: give whole numbers separated by commas, such as 1,2,4,8."
        ) from None


def _rate(given: str) -> float | None:
    how, _, rate = given.partition(":")
    try:
        if how == "poisson":
            return float(rate)
    except ValueError:
        how = ""
    if how != "closed" or rate:
        raise DraftscopeError(f"--arrivals {given}: write closed, or poisson:RATE such as poisson:2.5.")
    return None


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3


def _say(dropped: Mapping[str, str]) -> None:
    for lane, why in dropped.items():
        terminal.say(f"{lane} does not take part: {why}")


def _save(path: Path, whole: Mapping[str, Any]) -> None:
    try:
        path.write_text(jsonlib.dumps(whole, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DraftscopeError(f"'{path}' cannot be written ({reason}); choose another --save.") from None
