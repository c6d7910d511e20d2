"""`draftscope race`: servers of other programs, and drafters here, on the same tokens; or all of them under load."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import BaseModel, ConfigDict

from draftscope.base.errors import DraftscopeError, quoted, write_text
from draftscope.base.steps import said, stoppable
from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, option, options_of, read_options, takes, whole
from draftscope_app.cli.terminal import interruptible
from draftscope_app.doors.servers.race import report as races
from draftscope_app.reports.run_report import printable

if TYPE_CHECKING:
    from draftscope.servers.field import Field
    from draftscope.servers.forced import Forced
    from draftscope.servers.load_test import LoadPlan
    from draftscope.servers.server_race import Race, RaceResult
    from draftscope.servers.summary import LaneSummary
    from draftscope.trace.events import AnyEvent

SHOWN = 24  # tokens whose probability is printed; --save has all
LANES, LOAD = "Lanes", "Load"
RUN = "race"  # its name in a trace


class Options(BaseModel):
    """What `race` takes beside its prompt, the models here and the sampling."""

    model_config = ConfigDict(frozen=True)

    server: tuple[str, ...] = option(
        "a server, such as plain=http://127.0.0.1:8100; default: DRAFTSCOPE_SERVERS", (), LANES, "NAME=URL"
    )
    inside: tuple[str, ...] = option(
        "a server's own rounds in --trace, by the recorder in it; all are then asked at the same moment",
        (), LANES, "LANE",
    )  # fmt: skip
    engine: tuple[str, ...] = option("a drafter here as another lane", (), LANES, "DRAFTER")
    served_model: tuple[str, ...] = option(
        "the model to ask a server for, where it does not say or has several", (), LANES, "LANE=MODEL"
    )
    timeout: float = option(
        "seconds without a whole line or answer until a server is given up", 120.0, LANES, "S", gt=0, le=86400
    )
    cached: bool = option("let servers use their prefix caches", False, LANES)
    prompts: Path | None = option("prompts, one object a line", None, command_options.PROMPT, "FILE.jsonl")
    raw: bool = option("no chat template", False, command_options.PROMPT)
    repeats: int = option("counted repeats after the warm-up", 3, command_options.SAMPLING, ge=1)
    concurrency: tuple[int, ...] = option("measure under load: concurrent requests, 1 to 64", (), LOAD)
    arrivals: str = option("closed, or poisson:RATE with requests a second", "closed", LOAD, "HOW")
    seconds: float = option("time for each point", 10.0, LOAD, "S", gt=0, le=86400)
    good_ttft: float | None = option("goodput: answers that begin within so many milliseconds", None, LOAD, "MS")
    good_tpot: float | None = option("goodput: answers with at most so many milliseconds per token", None, LOAD, "MS")
    save: Path | None = option("everything, token by token", None, command_options.OUTPUT, "FILE.json")
    trace: Path | None = option(
        "the first answer of each lane as a trace, which the page loads and 'draftscope replay' shows",
        None, command_options.OUTPUT, "FILE.jsonl.gz",
    )  # fmt: skip


@takes(
    given=options_of(Options.model_fields),
    sampling=command_options.sampling_options(),
    loading=command_options.MODEL_OPTIONS,
)
def race(
    given: Given,
    sampling: Given,
    loading: Given,
    prompt: Annotated[str | None, typer.Argument(metavar="PROMPT", help="the text to continue")] = None,
    tokens: Annotated[
        int,
        command_options.make_option("tokens to write", "N", command_options.SAMPLING, "-n", "--tokens", parser=whole),
    ] = 64,
    json: command_options.Json = False,
) -> int:
    """Race servers of other programs, and drafters here, on the same tokens.

    Every lane gets the same token ids, seeds, temperature and stop strings; the turns alternate, and a warm-up is not
    counted. With --target the target's own probability of every token is computed from the weights here. With
    --concurrency each server is measured under load instead. The exit code is 1 if a lane failed.

    Example: draftscope race --server plain=http://127.0.0.1:8100 --server fast=http://127.0.0.1:8101 "Once upon a time"
    """
    from draftscope.servers.field import request_of
    from draftscope.servers.load_test import LoadPlan
    from draftscope.servers.server_race import Race

    chosen = read_options(Options, given)
    texts, points, rate = _texts(prompt, chosen.prompts), chosen.concurrency, _rate(chosen.arrivals)
    request = request_of(command_options.settings(sampling), tokens, not chosen.cached)
    with _opened(chosen, loading) as lanes:
        prompts = lanes.prompts(texts, chosen.raw, tokens)
        with interruptible() as interrupted:
            if points:
                good = _seconds(chosen.good_ttft), _seconds(chosen.good_tpot)
                load = LoadPlan(prompts, request, points, chosen.seconds, rate, *good, lanes.jitter)
                return _load(lanes, load, chosen.save, json, interrupted)
            plan = Race(prompts, request, chosen.repeats, lanes.jitter, _recorded(lanes, chosen))
            return _race(lanes, plan, chosen, json, interrupted)


@contextmanager
def _opened(chosen: Options, loading: Given) -> Generator[Field]:
    """The lanes that answer."""
    from draftscope.servers import lanes as entries
    from draftscope.servers.field import Field
    from draftscope.servers.wire import WireLimits

    named = entries.parse_servers(chosen.server, chosen.engine)
    models = entries.parse_served_models(chosen.served_model, named)
    load, _ = command_options.models(loading)
    with ExitStack() as opened:
        engine = opened.enter_context(command_options.load(load)) if loading or chosen.engine else None
        drafters = {name: command_options.settings({}, name) for name in chosen.engine}
        limits = WireLimits(silent=chosen.timeout, connect=min(chosen.timeout, WireLimits.connect))
        draft = engine.draft if engine and "draft" in loading else None
        yield opened.enter_context(Field.open(named, engine, drafters, models=models, limits=limits, draft=draft))


def _recorded(field: Field, chosen: Options) -> dict[str, str]:
    """Lane -> the name of the request of which its recorder is asked."""
    from draftscope.servers.inside.live import new_name

    answering = [lane.name for lane in field.servers]
    if wrong := [name for name in chosen.inside if name not in answering]:
        raise DraftscopeError(f"--inside {quoted(wrong[0])}: write one of {', '.join(answering)}.")
    return {name: new_name() for name in chosen.inside}


def _race(field: Field, plan: Race, chosen: Options, json: bool, interrupted: Callable[[], bool]) -> int:
    from draftscope.servers.forced import Forced
    from draftscope.servers.server_race import RaceResult
    from draftscope.servers.summary import saved, summaries
    from draftscope.trace import files

    standing, known = RaceResult(), dict[tuple[str, int, int], Forced]()
    _say({**field.missing, **field.strangers})
    events: Iterable[AnyEvent] = said(stoppable(field.race(plan, RUN, standing, known), interrupted))
    if chosen.trace is not None:
        events = files.write_through(chosen.trace, events)
    with terminal.progress("answers") as bar:
        task = bar.add_task("Racing", total=len(field.lanes) * len(plan.prompts) * plan.repeats)
        for _ in events:
            bar.update(task, completed=len(standing.answers))
    rows = summaries(field.lanes, plan, standing, known)
    whole = saved(plan, standing, rows, known) | {"missing": dict(field.missing)}
    if chosen.save is not None:
        write_text(chosen.save, jsonlib.dumps(whole, indent=1) + "\n")
    if json:
        print(jsonlib.dumps({name: value for name, value in whole.items() if name != "answers"}))
    else:
        _show(field, standing, rows, known)
    if interrupted():
        raise KeyboardInterrupt
    failed = field.missing or standing.dropped or any(answer.failure for answer in standing.answers)
    return ExitCode.FAILED if failed else ExitCode.OK


def _show(
    field: Field, standing: RaceResult, rows: Sequence[LaneSummary], known: Mapping[tuple[str, int, int], Forced]
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
            terminal.say(f"{row.lane}: {note}")


def _load(field: Field, plan: LoadPlan, save: Path | None, json: bool, interrupted: Callable[[], bool]) -> int:
    from draftscope.base.progress import Progress
    from draftscope.servers.curve import LoadCurve
    from draftscope.servers.load_test import LoadPoint

    _say(field.missing)
    points = list[LoadPoint]()
    curve: LoadCurve | None = None
    with terminal.progress("points") as bar:
        task = bar.add_task("Loading", total=len(field.lanes) * len(plan.concurrency))
        for step in stoppable(field.load(plan, points), interrupted):
            curve = step if isinstance(step, LoadCurve) else curve
            doing = f"Measuring {step.words}" if isinstance(step, Progress) else "Loading"
            bar.update(task, completed=len(points), description=doing)
    if curve is None:  # before anything was asked
        raise KeyboardInterrupt
    whole = curve.model_dump(mode="json")
    if save is not None:
        write_text(save, jsonlib.dumps(whole, indent=1) + "\n")
    if json:
        print(jsonlib.dumps(whole))
    else:
        head, rows, numbers = races.load_table(points, field.lanes[0].name, curve)
        terminal.show(terminal.Table(head, rows, numbers))
        for note in races.load_notes(points, curve):
            terminal.say(note)
    if interrupted():
        raise KeyboardInterrupt
    return ExitCode.FAILED if field.missing or any(point.failed for point in points) else ExitCode.OK


def _texts(prompt: str | None, path: Path | None) -> list[str]:
    from draftscope.base import prompts

    if (prompt is None) == (path is None):
        raise DraftscopeError("Give a PROMPT or --prompts FILE.jsonl, one of the two.")
    if path is None:
        return [sys.stdin.read() if prompt == "-" else prompt or ""]
    entries, notes = prompts.read(path)
    for note in notes:
        terminal.print_note(note)
    return [entry.text for entry in entries]


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
        terminal.print_note(f"{lane} does not take part: {why}")
