"""`draftscope claims`: what people say about speculative decoding, judged by the results of your own commands."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from draftscope.base.errors import DraftscopeError
from draftscope.base.machine import machine_words
from draftscope_app.cli import options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import decimal, whole

if TYPE_CHECKING:
    from draftscope.claims.claim import Claim, JudgedClaim
    from draftscope.claims.evidence import RowJson, SavedResults

RESULTS = "Results"
BENCH, REGRET = Path("bench/bench.json"), Path("regret/regret.json")
RUN_S = 3600.0

Number = Annotated[int | None, typer.Argument(parser=whole, metavar="[NUMBER]", help="one claim; default: all 24")]
Bench = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE", help=f"results of a benchmark, once or more; default: {BENCH}", rich_help_panel=RESULTS
    ),
]
Regret = Annotated[
    Path | None, typer.Option(metavar="FILE", help=f"results of 'regret'; default: {REGRET}", rich_help_panel=RESULTS)
]
Advice = Annotated[
    Path | None, typer.Option(metavar="FILE", help="results of 'advise --json'", rich_help_panel=RESULTS)
]
Folder = Annotated[
    Path | None,
    typer.Option("--from", metavar="DIR", help="read all results in this folder instead", rich_help_panel=RESULTS),
]
Run = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="measure what this folder lacks, then read it", rich_help_panel=RESULTS),
]
Seconds = Annotated[float, typer.Option(parser=decimal, metavar="X", help="time for --run", rich_help_panel=RESULTS)]
Save = Annotated[
    Path | None, typer.Option(metavar="FILE", help="write all verdicts as JSON", rich_help_panel=options.OUTPUT)
]

app = typer.Typer(add_completion=False)


@app.command()
def claims(
    number: Number = None,
    bench: Bench = None,
    regret: Regret = None,
    advice: Advice = None,
    folder: Folder = None,
    run: Run = None,
    seconds: Seconds = RUN_S,
    save: Save = None,
    json: options.Json = False,
) -> int:
    """What people say about speculative decoding, judged by results that were measured here.

    Reads the files that 'bench', 'regret' and 'advise --json' wrote; loads no model, unless --run is given. A claim
    whose results are missing names the command that measures it.
    """
    from draftscope.claims import saved
    from draftscope_app.cli import claim_runs

    chosen = _chosen(number)
    if run is not None:
        claim_runs.run(chosen, run, seconds, terminal.print_note)
    evidence = _evidence(run or folder, bench, regret, advice)
    if save is not None:
        saved.save(save, evidence)
        terminal.print_note(f"wrote {save}.")
    judged = [(claim, claim.judged(evidence)) for claim in chosen]
    if json:
        print(jsonlib.dumps([saved.values(claim, outcome) for claim, outcome in judged]))
    elif number is not None:
        _show_one(*judged[0], evidence)
    else:
        _show_all(judged, evidence)
    return ExitCode.OK


def _chosen(number: int | None) -> Sequence[Claim]:
    """The claim of that number, or all."""
    from draftscope.claims.table import CLAIMS, find

    if number is None:
        return CLAIMS
    claim = find(number)
    if claim is None:
        raise DraftscopeError(f"There is no claim {number}; choose 1 to {len(CLAIMS)}.")
    return [claim]


def _evidence(among: Path | None, bench: list[Path] | None, regret: Path | None, advice: Path | None) -> SavedResults:
    """All results in the folder `among`; without one, the given files, or those where the commands write them."""
    from draftscope.claims.evidence import SavedResults, in_folder, read

    if among is not None:
        return in_folder(among)
    benches = [read(path, "rows") for path in bench or ([BENCH] if BENCH.exists() else [])]
    return SavedResults(benches, _read(regret, REGRET, "rows"), _read(advice, None, "limits"))


def _read(given: Path | None, default: Path | None, field: str) -> RowJson | None:
    """The given file, or the default one if it is there."""
    from draftscope.claims.evidence import read

    path = given or (default if default is not None and default.exists() else None)
    return read(path, field) if path is not None else None


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
