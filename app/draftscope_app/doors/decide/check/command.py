"""`draftscope check`: is a drafter's output still the target's? Exit code 1 where a difference was found."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from draftscope.base.errors import DraftscopeError
from draftscope.base.progress import Progress
from draftscope.base.prompts import read
from draftscope.measure.findings import refuse_few
from draftscope_app.cli import command_options, plans, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, option, options_of, read_options, takes

if TYPE_CHECKING:
    from draftscope.drafters import DrafterInfo
    from draftscope.measure.findings import Finding

MAX_PROMPTS = 8  # of a prompt file: each is decoded greedily a few times, and tried for the sampled runs
OF_RUN = {"seed", "rule", "draft_length"}
HEAD = ("result", "check", "detail")
COLORS = {"ok": "green", "tie": "yellow", "?": "yellow", "FAIL": "bold red"}


class Options(BaseModel):
    """What `check` takes beside the models and prompts."""

    drafter: str | None = option("the drafter to check; default: that of 'draftscope decode'", None, metavar="NAME")
    rule: str | None = option("rule that verifies a chain; default: block, then token", None, metavar="RULE")
    draft_length: str | None = option("how the length of a chain is chosen; default: fixed", None, metavar="HOW")
    samples: int = option("runs of each test of the distribution", 2048)
    seed: int = option("seed of every random draw", 0)


@takes(given=options_of(Options.model_fields), loading=command_options.MODEL_OPTIONS)
def check(given: Given, loading: Given, prompts: plans.Prompts = None, json: command_options.Json = False) -> int:
    """Compare a drafter's output with plain decoding.

    At temperature 0 the tokens must be equal, except where rounding alone decides the target's best token: such a tie
    is counted and is no difference. Above it their distribution is tested on many runs. The exit code
    is 1 where a difference was found, and 3 where too little was drafted to find one.
    """
    wanted = read_options(Options, given)
    refuse_few(wanted.samples)
    from draftscope import drafters
    from draftscope.decode.availability import default_drafter
    from draftscope.decode.lane import Lane
    from draftscope.drafters.settings import Settings
    from draftscope.measure.check import check as run_check
    from draftscope.measure.check import count_of_tests
    from draftscope.measure.greedy_checks import PROMPTS

    load, name = command_options.models(loading, wanted.drafter)
    chosen = Settings.of(temperature=1.0, **wanted.model_dump(include=OF_RUN, exclude_none=True))
    if name is not None:
        _refuse_length(drafters.find(name), wanted.draft_length)
    texts = _texts(prompts)
    engine = command_options.load(load)
    lane = Lane.of(engine, chosen.model_copy(update={"drafter": name or default_drafter(engine)}))
    info = lane.info
    _refuse_length(info, wanted.draft_length)
    with _shown(json, count_of_tests(info, wanted.rule)) as (show, watch):
        checked = run_check(
            engine, info.name, wanted.samples, wanted.seed, watch, wanted.rule, chosen, texts or PROMPTS
        )
        findings = [show(finding) for finding in checked]
    return _concluded(info.name, findings, lane.exact, not info.source, json)


def _refuse_length(drafter: DrafterInfo, length: str | None) -> None:
    if length and "draft_length" not in drafter.uses:
        raise DraftscopeError(f"--draft-length {length}: '{drafter.name}' has no choice of length; leave it out.")


def _concluded(name: str, findings: Sequence[Finding], exact: bool, proved: bool, json: bool) -> ExitCode:
    """Prints the verdict, as JSON with the findings. The exit code says it too."""
    from draftscope.measure.findings import verdict

    passed = all(finding.passed for finding in findings)
    undecided = passed and any(finding.undecided for finding in findings)
    conclusion = verdict(findings, exact, proved)
    if json:
        result = {
            "drafter": name, "exact": exact, "passed": passed, "undecided": undecided,
            "ties": sum(finding.ties for finding in findings), "verdict": conclusion,
            "findings": [asdict(finding) for finding in findings],
        }  # fmt: skip
        print(jsonlib.dumps(result))
    else:
        print(conclusion)
    return ExitCode.UNDECIDED if undecided else ExitCode.OK if passed else ExitCode.FAILED


def _texts(prompts: Path | None) -> tuple[str, ...]:
    """The first texts of a prompt file; empty without one."""
    if prompts is None:
        return ()
    texts, notes = read(prompts)
    for note in notes:
        print(note, file=sys.stderr)
    return tuple(prompt.text for prompt in texts[:MAX_PROMPTS])


@contextmanager
def _shown(json: bool, tests: int) -> Iterator[tuple[Callable[[Finding], Finding], Callable[[Progress], None]]]:
    """Shows each finding as it is made, and what is tested at the moment: the distribution tests take a while.

    A table on a terminal; in a pipe, or with `json`, how far it is goes to stderr, and without `json` a line for each
    finding to stdout.
    """
    findings: list[Finding] = []
    if json or not sys.stdout.isatty():
        with terminal.show_progress("Checking") as watch:

            def show(finding: Finding) -> Finding:
                findings.append(finding)
                if not json:
                    print(f"{_result(finding):4}  {finding.name}: {finding.detail}", flush=True)
                return finding

            yield show, lambda now: watch(_with_what_is_known(now, findings, tests))
        return
    with terminal.live_table(HEAD) as (add, caption):

        def row(finding: Finding) -> Finding:
            findings.append(finding)
            add((_result(finding), finding.name, finding.detail), COLORS[_result(finding)])
            return finding

        yield row, lambda now: caption(_with_what_is_known(now, findings, tests).words)


def _with_what_is_known(now: Progress, findings: Sequence[Finding], tests: int) -> Progress:
    """What is tested, and what can be said so far."""
    from draftscope.measure.findings import so_far

    return replace(now, doing="; ".join(filter(None, (now.doing, so_far(findings, tests)))))


def _result(finding: Finding) -> str:
    if not finding.passed:
        return "FAIL"
    if finding.undecided:
        return "?"
    return "tie" if finding.ties else "ok"
