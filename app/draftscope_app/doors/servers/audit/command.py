"""`draftscope audit`: is a server's output still its target's? `exit_codes` says what it tells a nightly job."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from draftscope.base.errors import DraftscopeError, read_bytes, reason
from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, options_of, takes
from draftscope_app.doors.servers.audit.audited import ASKED, Options, audited, audited_inside, exit_code

if TYPE_CHECKING:
    from draftscope.servers.audit.audit import AuditReport

TARGET = "the weights that the server should run: hub id, folder, GGUF file, or a known name; without it give --plain"
INSIDE = "test every decision that draftscope-vllm recorded in the server; needs no weights"
POSITIONS = ("token", "samples", "log p - E log p, nats", "standard error", "z")
WITH_INSIDE = ("model", "prompts", "length", "concurrency", "tokens", "minutes", "false_alarm")
SAME = ("target", "settings")  # of a baseline and a report that may be compared

# No stop strings: a server that leaves the string's tokens out does not say which tokens it sampled.
SAMPLING = command_options.sampling_options(without=("stop",), temperature=1.0)


def _file(about: str) -> Any:
    return command_options.make_option(about, "FILE", command_options.OUTPUT)


@takes(
    given=options_of(Options.model_fields),
    sampling=SAMPLING,
    loading=command_options.model_options(command_options.OF_DRAFTS, {"target": TARGET}),
)
def audit(
    url: Annotated[str, typer.Argument(metavar="URL", help="the server, such as http://127.0.0.1:8000")],
    given: Given,
    sampling: Given,
    loading: Given,
    inside: Annotated[bool, command_options.make_option(INSIDE, None, ASKED, "--inside")] = False,
    json: Annotated[Path | None, _file("the report as JSON; - prints it")] = None,
    junit: Annotated[Path | None, _file("what was tested as JUnit XML")] = None,
    summary: Annotated[Path | None, _file("a summary in Markdown is appended")] = None,
    baseline: Annotated[Path | None, _file("an earlier report of --json, whose differences do not fail again")] = None,
) -> int:
    """Ask whether a server's output is still its target's.

    At temperature 0 its tokens must be plain's, except at ties. Above it, the tokens that it samples are tested under
    the target's own probabilities, computed here: their log-probabilities, their ranks, and whether texts repeat. The
    audit ends as soon as a difference is clear, or says how large a difference it could have missed. The exit code is 0
    where none was found, 1 where one was, 2 where the server could not be tested, 3 where too little was seen.
    With --inside the decisions themselves are tested, on a vLLM that records them.

    Example: draftscope audit http://127.0.0.1:8000 --target MODEL
    """
    chosen = Options(**given)
    if inside:
        files = {"junit": junit, "summary": summary, "baseline": baseline}
        _refuse_beside_inside([*given, *loading, *(name for name, path in files.items() if path is not None)])
        return _inside(url, chosen, sampling, json)
    before = None if baseline is None else _baseline(baseline)
    report = audited(url, chosen, loading, sampling)
    known = frozenset() if before is None else _in_baseline(report, before, str(baseline))
    code = exit_code(report, known)
    _write(report, known, code, json, junit, summary)
    if str(json) != "-":
        _print(report)
        if both := known & set(report.differences):
            print(f"The baseline has this difference too: {', '.join(sorted(both))}.")
    return code


def _refuse_beside_inside(given: Sequence[str]) -> None:
    if wrong := [f"--{name.replace('_', '-')}" for name in given if name not in WITH_INSIDE]:
        raise DraftscopeError(f"--inside tests what the server recorded; leave out {', '.join(wrong)}.")


def _inside(url: str, chosen: Options, sampling: Given, json: Path | None) -> int:
    report = audited_inside(url, chosen, sampling)
    _write_json(report.as_json(), json)
    if str(json) != "-":
        terminal.say(report.verdict)
        rows = [
            (
                finding.tensor,
                f"{finding.tested:,}",
                f"{finding.wrong:,}",
                finding.fault or "as it should be" if finding.tested else "nothing seen",
            )
            for finding in report.findings
        ]
        terminal.show(terminal.Table(("tensor", "tested", "wrong", "finding"), rows, frozenset({1, 2})))
    if report.different:
        return ExitCode.FAILED
    if report.incomplete:
        return ExitCode.NOT_DONE
    return ExitCode.OK if report.decisions else ExitCode.UNDECIDED


def _baseline(path: Path) -> Mapping[str, Any]:
    try:
        report = jsonlib.loads(read_bytes(path, "The baseline"))
        return {name: report[name] for name in (*SAME, "differences")}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DraftscopeError(
            f"--baseline {path}: not a report of 'draftscope audit --json' ({reason(error)})."
        ) from None


def _in_baseline(report: AuditReport, before: Mapping[str, Any], path: str) -> frozenset[str]:
    """The differences of the baseline. Raises `DraftscopeError` where it is about something else."""
    now = report.as_json()
    for name in SAME:
        if jsonlib.loads(jsonlib.dumps(now[name])) != before[name]:
            raise DraftscopeError(
                f"--baseline {path}: it has the {name} {before[name]}, this audit {now[name]}; write the baseline anew."
            )
    return frozenset(before["differences"])


def _write(
    report: AuditReport, known: frozenset[str], code: int, json: Path | None, junit: Path | None, summary: Path | None
) -> None:
    from draftscope_app.doors.servers.audit import report as reports

    content = report.as_json()
    _write_json(content, json)
    if junit is not None:
        junit.write_text(reports.junit(content, known), encoding="utf-8")
    if summary is not None:
        with summary.open("a", encoding="utf-8") as file:
            file.write(reports.markdown_summary(content, known, code))


def _write_json(content: Mapping[str, Any], path: Path | None) -> None:
    if str(path) == "-":
        print(jsonlib.dumps(content))
    elif path is not None:
        path.write_text(jsonlib.dumps(content, indent=1) + "\n", encoding="utf-8")


def _print(report: AuditReport) -> None:
    """The verdict, the numbers by position, and an example where something is wrong."""
    terminal.say(report.verdict)
    if report.sampled is None:
        return
    if "positions" in report.sampled:
        _print_positions(report.sampled["positions"])
    if report.different and report.example is not None:
        print(f"An example: after {report.example['prompt']!r} it wrote {report.example['text']!r}")


def _print_positions(positions: Sequence[Mapping[str, Any]]) -> None:
    rows = [
        (
            str(position["position"]),
            str(position["tokens"]),
            f"{position['score']:+.3f}",
            f"{position['error']:.3f}",
            f"{position['z']:+.1f}",
        )
        for position in positions
    ]
    terminal.show(terminal.Table(POSITIONS, rows, frozenset(range(len(POSITIONS)))))
