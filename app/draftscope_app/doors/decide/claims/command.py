"""`draftscope claims`: what people say about speculative decoding, judged by the results of your own commands."""

from __future__ import annotations

import json as jsonlib
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import BaseModel

from draftscope.base.errors import DraftscopeError
from draftscope.base.machine import machine_words
from draftscope.base.steps import last
from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, option, options_of, read_options, takes, whole
from draftscope_app.doors.decide import commands

if TYPE_CHECKING:
    from draftscope.claims.claim import Claim, JudgedClaim
    from draftscope.claims.saved_results import SavedResults

RESULTS = "Results"
BENCH, REGRET = Path("bench/bench.json"), Path("regret/regret.json")


class Options(BaseModel):
    """What `claims` reads, measures and writes."""

    bench: tuple[str, ...] = option(f"results of a benchmark; default: {BENCH}", (), RESULTS, "FILE")
    regret: Path | None = option(f"results of 'regret'; default: {REGRET}", None, RESULTS, "FILE")
    advice: Path | None = option("results of 'advise --json'", None, RESULTS, "FILE")
    from_: Path | None = option("read all results in this folder instead", None, RESULTS, "DIR")
    run: Path | None = option("measure what this folder lacks, then read it", None, RESULTS, "DIR")
    seconds: float = option("time for --run", 3600.0, RESULTS)
    save: Path | None = option("write all verdicts as JSON", None, command_options.OUTPUT, "FILE")


@takes(given=options_of(Options.model_fields))
def claims(
    given: Given,
    number: Annotated[
        int | None, typer.Argument(parser=whole, metavar="NUMBER", help="one claim; default: all 24")
    ] = None,
    json: command_options.Json = False,
) -> int:
    """What people say about speculative decoding, judged by results that were measured here.

    Reads the files that 'bench', 'regret' and 'advise --json' wrote; loads no model, unless --run is given. A claim
    whose results are missing names the command that measures it.
    """
    from draftscope.claims import saved

    chosen, wanted = _chosen(number), read_options(Options, given)
    if wanted.run is not None:
        run_commands(chosen, wanted.run, wanted.seconds, terminal.print_note)
    evidence = _evidence(wanted)
    if wanted.save is not None:
        saved.save(wanted.save, evidence)
        terminal.print_note(f"wrote {wanted.save}.")
    judged = [(claim, claim.judged(evidence)) for claim in chosen]
    if json:
        print(jsonlib.dumps([saved.claim_values(claim, outcome) for claim, outcome in judged]))
    elif number is not None:
        _show_one(*judged[0], evidence)
    else:
        _show_all(judged, evidence)
    return ExitCode.OK


def commands_to_run(claims: Iterable[Claim]) -> list[str]:
    """The commands of these claims, each once; only those whose files are read."""
    every = dict.fromkeys(claim.command for claim in claims if claim.judge is not None)
    return [command for command in every if commands.runnable(command)]


def run_commands(claims: Iterable[Claim], root: Path, seconds: float, say: Callable[[str], None]) -> None:
    """Runs what has no results in `root` yet, within that time, each into a folder of its own. A command that fails or
    takes too long is said, and the next one runs."""
    until = time.monotonic() + seconds
    for command in commands_to_run(claims):
        folder, left = commands.folder_of(command, root), until - time.monotonic()
        if folder.exists() and any(folder.glob("*.json")):
            continue
        if left <= 0:
            say(f"Not run, since the {seconds:g} s are over: {command}")
            continue
        say(f"Running {command} ...")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            last(commands.running(command, folder, left))
        except DraftscopeError as error:
            say(str(error))


def _chosen(number: int | None) -> Sequence[Claim]:
    """The claim of that number, or all."""
    from draftscope.claims.table import CLAIMS, find

    if number is None:
        return CLAIMS
    claim = find(number)
    if claim is None:
        raise DraftscopeError(f"There is no claim {number}; choose 1 to {len(CLAIMS)}.")
    return [claim]


def _evidence(wanted: Options) -> SavedResults:
    """All results in one folder; without one, the given files, or those where the commands write them."""
    from draftscope.claims.saved_results import SavedResults, in_folder, read

    if wanted.from_ is not None and not wanted.from_.is_dir():
        raise DraftscopeError(f"--from {wanted.from_}: there is no such folder; check the path.")
    if folder := wanted.run or wanted.from_:
        return in_folder(folder)
    benches = [read(Path(path), "rows") for path in wanted.bench or ([BENCH] if BENCH.exists() else [])]
    regret = wanted.regret or (REGRET if REGRET.exists() else None)
    return SavedResults(
        benches, read(regret, "rows") if regret else None, read(wanted.advice, "limits") if wanted.advice else None
    )


def _show_one(claim: Claim, judged: JudgedClaim, evidence: SavedResults) -> None:
    print(f"{claim.number}. {claim.sentence}\n{_machine(evidence)}")
    print(f"Verdict: {judged.verdict}. {judged.measured}")
    print(f"How it is computed: {claim.rule}. Measured by: {claim.command}")
    from draftscope.forecast.economics import forecast_of_claim

    said = forecast_of_claim(claim.number)
    for more in (judged.formula and f"The formula: {judged.formula}", said and f"Forecast: {said}", judged.change):
        if more:
            print(more)


def _show_all(judged: list[tuple[Claim, JudgedClaim]], evidence: SavedResults) -> None:
    rows = [(str(claim.number), claim.sentence, str(outcome.verdict), outcome.measured) for claim, outcome in judged]
    terminal.show(terminal.Table(("", "claim", "verdict", "found"), rows, frozenset({0}), _machine(evidence)))


def _machine(evidence: SavedResults) -> str:
    """The machine and date of the results."""
    known = machine_words(evidence.machine)
    return f"Measured on: {known}" if known else "No results were found; the commands below measure them."
