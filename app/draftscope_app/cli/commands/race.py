"""`draftscope race`: servers of other programs, and drafters here, on the same tokens; or all of them under load."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from draftscope.base.errors import DraftscopeError
from draftscope_app.cli import options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, decimal, takes, whole
from draftscope_app.cli.interrupt import interruptible
from draftscope_app.reports import races
from draftscope_app.reports.lanes import printable

if TYPE_CHECKING:
    from draftscope.decode.lab import Lab
    from draftscope.servers.adapter import Request
    from draftscope.servers.forced import Forced
    from draftscope.servers.load import LoadPlan, LoadPoint
    from draftscope.servers.race import Lane, Prompt, Race, Standing
    from draftscope.servers.summary import LaneSummary

SHOWN = 24  # tokens whose probability is printed; --save has all
LANES, LOAD = "Lanes", "Load"

app = typer.Typer(add_completion=False)


@app.command()
@takes(loading=options.MODEL_OPTIONS)
def race(
    loading: Given,
    prompt: Annotated[str | None, typer.Argument(metavar="PROMPT", help="the text to continue")] = None,
    server: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=URL",
            help="a server, such as plain=http://127.0.0.1:8100; may be repeated; default: DRAFTSCOPE_SERVERS",
            rich_help_panel=LANES,
        ),
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(metavar="DRAFTER", help="a drafter here as another lane; may be repeated", rich_help_panel=LANES),
    ] = None,
    served_model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LANE=MODEL",
            help="the model to ask a server for, where it does not say or has several; may be repeated",
            rich_help_panel=LANES,
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            parser=decimal, metavar="S", help="seconds of silence until a server is given up", rich_help_panel=LANES
        ),
    ] = 120.0,
    prompts: Annotated[
        Path | None,
        typer.Option(metavar="FILE.jsonl", help="prompts, one object a line", rich_help_panel=options.PROMPT),
    ] = None,
    raw: Annotated[bool, typer.Option(help="no chat template", rich_help_panel=options.PROMPT)] = False,
    tokens: Annotated[
        int,
        typer.Option(
            "-n", "--tokens", parser=whole, metavar="N", help="tokens to write", rich_help_panel=options.SAMPLING
        ),
    ] = 64,
    temperature: Annotated[
        float, typer.Option(parser=decimal, metavar="X", help="0 is greedy", rich_help_panel=options.SAMPLING)
    ] = 0.0,
    top_k: Annotated[
        int, typer.Option(parser=whole, metavar="N", help="0 is off", rich_help_panel=options.SAMPLING)
    ] = 0,
    top_p: Annotated[
        float, typer.Option(parser=decimal, metavar="X", help="1 is off", rich_help_panel=options.SAMPLING)
    ] = 1.0,
    min_p: Annotated[
        float, typer.Option(parser=decimal, metavar="X", help="0 is off", rich_help_panel=options.SAMPLING)
    ] = 0.0,
    seed: Annotated[
        int, typer.Option(parser=whole, metavar="N", help="seed of the first repeat", rich_help_panel=options.SAMPLING)
    ] = 0,
    stop: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="ends an answer; may be repeated", rich_help_panel=options.SAMPLING),
    ] = None,
    repeats: Annotated[int, typer.Option(parser=whole, metavar="N", help="counted repeats after the warm-up")] = 3,
    cached: Annotated[
        bool, typer.Option("--cached", help="let servers use their prefix caches", rich_help_panel=LANES)
    ] = False,
    concurrency: Annotated[
        str | None,
        typer.Option(metavar="N,...", help="measure under load: requests at once, 1 to 64", rich_help_panel=LOAD),
    ] = None,
    arrivals: Annotated[
        str, typer.Option(metavar="HOW", help="closed, or poisson:RATE with requests a second", rich_help_panel=LOAD)
    ] = "closed",
    seconds: Annotated[
        float, typer.Option(parser=decimal, metavar="S", help="time for each point", rich_help_panel=LOAD)
    ] = 10.0,
    good_ttft: Annotated[
        float | None,
        typer.Option(parser=decimal, metavar="MS", help="goodput: answers that begin within", rich_help_panel=LOAD),
    ] = None,
    good_tpot: Annotated[
        float | None,
        typer.Option(parser=decimal, metavar="MS", help="goodput: answers this fast per token", rich_help_panel=LOAD),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="everything, token by token", rich_help_panel=options.OUTPUT),
    ] = None,
    json: options.Json = False,
) -> int:
    """Race servers of other programs, and drafters here, on the same tokens.

    Every lane gets the same token ids, seeds, temperature and stop strings; the turns alternate, and a warm-up is not
    counted. With --target the target's own probability of every token is computed from the weights here. With
    --concurrency each server is measured under load instead. The exit code is 1 if a lane failed.
    """
    from draftscope.servers.adapter import Request
    from draftscope.servers.latency import loopback_jitter
    from draftscope.servers.load import LoadPlan
    from draftscope.servers.race import Race

    request = Request(
        (0,), tokens, "", seed, temperature, top_k, top_p, min_p, tuple(stop or ()), fresh=not cached
    )  # fmt: skip
    from draftscope.servers import lanes as entries
    from draftscope.servers.wire import Limits

    if repeats < 1:
        raise DraftscopeError(f"--repeats {repeats}: ask for 1 or more.")
    texts, points, rate = _texts(prompt, prompts), _points(concurrency), _rate(arrivals)
    named = entries.chosen(server or (), engine or ())
    models = entries.served(served_model or (), named)
    load, _ = options.models(loading)
    with ExitStack() as opened:
        lab = opened.enter_context(options.load(load)) if loading or engine else None
        limits = Limits(silent=timeout, connect=min(timeout, Limits.connect))
        lanes, missing = entries.connect(named, models, limits, opened.enter_context)
        lanes += entries.engine_lanes(lab, engine or ()) if lab else []
        tokenised = entries.prompts(texts, lanes, lab, raw, tokens)
        field = _Field(lanes, missing, tokenised, request, lab, loopback_jitter())
        with interruptible() as interrupted:
            if points:
                plan = LoadPlan(
                    tokenised, request, points, seconds, rate, _seconds(good_ttft), _seconds(good_tpot), field.jitter,
                    interrupted,
                )  # fmt: skip
                return _load(field, plan, save, json)
            return _race(field, Race(tokenised, request, repeats, field.jitter, interrupted), save, json)


@dataclass(frozen=True)
class _Field:
    """What races, and on what."""

    lanes: Sequence[Lane]
    missing: Mapping[str, str]  # lane -> why it does not take part
    prompts: Sequence[Prompt]
    request: Request
    lab: Lab | None
    jitter: float


def _race(field: _Field, plan: Race, save: Path | None, json: bool) -> int:
    from draftscope.servers.race import Standing, race, same_tokenizers
    from draftscope.servers.summary import saved, summaries

    reference = _tokenizer(field.lab)
    standing = Standing(dropped=same_tokenizers(field.lanes, reference))
    _say({**field.missing, **standing.dropped})
    with terminal.progress("answers") as bar:
        task = bar.add_task("Racing", total=len(field.lanes) * len(plan.prompts) * plan.repeats)
        for _ in race(field.lanes, plan, standing):
            bar.advance(task)
    known = _probabilities(field, standing)
    rows = summaries(field.lanes, plan, standing, known)
    whole = saved(plan, standing, rows, known) | {"missing": dict(field.missing)}
    if save is not None:
        _save(save, whole)
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
                pieces = [f"{field.lab.pieces.shown(token)!r} {p:.2f}" for token, p in tokens] if field.lab else []
                print(f"  p of its tokens: {printable(', '.join(pieces[:SHOWN]))}\n")
    terminal.show(terminal.Table(races.HEAD, races.rows(rows), races.NUMBERS))
    for line in races.LEGEND:
        print(line)
    print(f"The loopback's own jitter here: {field.jitter * 1e3:.2f} ms (99th percentile).")
    for row in rows:
        for note in row.notes:
            print(f"{row.lane}: {note}")


def _load(field: _Field, plan: LoadPlan, save: Path | None, json: bool) -> int:
    from draftscope.servers.load import load

    if any(lane.server.identity.kind == "draftscope" for lane in field.lanes):
        raise DraftscopeError("--engine takes one request at a time and has no place under load; leave it out.")
    _say(field.missing)
    points: list[LoadPoint] = []
    with terminal.progress("points") as bar:
        task = bar.add_task("Loading", total=len(field.lanes) * len(plan.concurrency))
        for point in load(field.lanes, plan):
            points.append(point)
            bar.advance(task)
    whole = {"kind": "server-load", "version": 1, "missing": dict(field.missing), "seconds": plan.seconds}
    whole |= {"rate": plan.rate, "points": [asdict(each) for each in points]}
    if save is not None:
        _save(save, whole)
    if json:
        print(jsonlib.dumps(whole))
    else:
        terminal.show(terminal.Table(races.LOAD_HEAD, races.load_rows(points, field.lanes[0].name), races.LOAD_NUMBERS))
        for note in races.load_notes(points):
            print(note)
    if plan.cancelled():
        raise KeyboardInterrupt
    return ExitCode.FAILED if field.missing or any(each.failed for each in points) else ExitCode.OK


def _probabilities(field: _Field, standing: Standing) -> dict[tuple[str, int, int], Forced]:
    """p of every token of each complete answer, from the weights here; empty without them."""
    from draftscope.servers.forced import forced
    from draftscope.verify.sampling import Sampling

    if field.lab is None:
        return {}
    asked = field.request
    sampling = Sampling(asked.temperature, asked.top_k, asked.top_p, asked.min_p)
    found = {}
    for each in standing.answers:
        if each.complete:
            prompt = field.prompts[each.prompt].ids
            try:
                found[each.lane, each.prompt, each.repeat] = forced(field.lab.target, prompt, each.ids, sampling)
            except DraftscopeError as error:
                standing.dropped.setdefault(each.lane, f"wrote what is not of the target here: {error}")
    return found


def _tokenizer(lab: Lab | None) -> Callable[[str], tuple[int, ...]] | None:
    if lab is None:
        return None
    return lambda text: tuple(lab.tokenizer.encode(text, add_special_tokens=False))


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


def _points(given: str | None) -> tuple[int, ...]:
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
