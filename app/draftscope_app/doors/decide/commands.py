"""Commands of the command line in processes of their own, each with a folder for its results; experiments, which are
measured by such commands."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

from draftscope.base.errors import DraftscopeError
from draftscope.base.progress import Progress
from draftscope.base.steps import Steps
from draftscope.trace.events import Record

if TYPE_CHECKING:
    from draftscope.claims.experiments import Experiment

RUNNABLE = ("bench", "regret", "advise")  # commands whose files are read
PATIENCE_S = 0.05  # how often it is looked whether a command has ended
MAX_S = 600.0  # for all commands of an experiment
SLOWER = 1.25  # times the expected duration: then it is said
# Ends its group, with the servers that a benchmark starts, once its input does: a killed parent closes that, too.
ENDER = ("sh", "-c", "read line; kill -KILL 0")
ONE = Lock()  # held by the experiment that runs: two would disturb each other


class ExperimentResult(Record):
    """What an experiment has measured: the values that `draftscope claims --save` would write, how long it took, and
    the benchmarks' notes on what they left out."""

    kind: Literal["measured"] = "measured"
    values: dict[str, Any]
    seconds: float
    notes: tuple[str, ...] = ()


def runnable(command: str) -> bool:
    """Whether the page can run this command and read its results."""
    return command.split()[1] in RUNNABLE


def folder_of(command: str, root: Path) -> Path:
    """'draftscope bench --quick --batch 1,4' -> root/bench-quick-batch-1-4."""
    return root / re.sub(r"[^A-Za-z0-9]+", "-", command.removeprefix("draftscope ")).strip("-")


def arguments(command: str, folder: Path) -> list[str]:
    """What to start for 'draftscope ...', so that its results lie in `folder` after `keep`."""
    words = shlex.split(command)[1:]
    to = [] if words[0] == "advise" else ["--out", str(folder)]
    return [sys.executable, "-m", "draftscope_app.cli.main", *words, *to]


def keep(command: str, folder: Path, printed: str) -> None:
    """Saves the results of a command that prints them."""
    if shlex.split(command)[1] == "advise":
        (folder / "advice.json").write_text(printed, encoding="utf-8")


def reason(returned: int, errors: str) -> str:
    """Why a command gave no results; empty if it did."""
    words = " ".join(errors.split()).replace("draftscope: ", "")  # which begins each of its messages
    return (words[-300:] or f"exit code {returned}") if returned else ""


def running(command: str, folder: Path, seconds: float) -> Steps[float, None]:
    """Runs a command and yields again and again for how many seconds it has run. Whoever closes it ends the command.

    Raises `DraftscopeError` if it fails or takes longer than `seconds`.
    """
    with TemporaryFile() as out, TemporaryFile() as errors:
        began = time.monotonic()
        ender = subprocess.Popen(ENDER, stdin=subprocess.PIPE, process_group=0)
        process = subprocess.Popen(arguments(command, folder), stdout=out, stderr=errors, process_group=ender.pid)
        try:
            while process.poll() is None:
                spent = time.monotonic() - began
                if spent > seconds:
                    raise DraftscopeError(f"{command} was stopped after {seconds:.0f} s; run it in a terminal.")
                yield spent
                with suppress(subprocess.TimeoutExpired):
                    process.wait(PATIENCE_S)
        finally:
            ender.communicate()
            process.wait()
        printed, said = (_read(file) for file in (out, errors))
    if why := reason(process.returncode, said):
        raise DraftscopeError(f"{command} gave no results: {why.rstrip('.')}.")
    keep(command, folder, printed)


def _read(file: Any) -> str:
    file.seek(0)
    return str(file.read().decode(errors="replace"))


def experimented(experiment: Experiment, max_s: float = MAX_S) -> Steps[Progress | ExperimentResult, None]:
    """Runs the commands of an experiment within that time, after any other experiment; the last step is the result.

    Raises `DraftscopeError` if one fails.
    """
    from draftscope.claims.saved import found_in
    from draftscope.claims.saved_results import in_folder

    while not ONE.acquire(timeout=PATIENCE_S):
        yield Progress("another experiment first")
    try:
        began = time.monotonic()
        with TemporaryDirectory() as root:
            for at, command in enumerate(experiment.commands):
                before = time.monotonic() - began
                folder = folder_of(command, Path(root))
                folder.mkdir()
                with closing(running(command, folder, max_s - before)) as seconds:
                    for spent in seconds:
                        yield progress(experiment, at, before + spent, max_s)
            evidence = in_folder(Path(root))
            said = [note for bench in evidence.benches for note in bench.get("notes", ())]
            left_out = tuple(note for note in said if note.startswith("Stopped"))
            yield ExperimentResult(values=found_in(evidence), seconds=time.monotonic() - began, notes=left_out)
    finally:
        ONE.release()


def progress(experiment: Experiment, at: int, spent: float, max_s: float) -> Progress:
    """While it runs: `at` is the index of the command that runs now, `spent` are the seconds of all."""
    many = f"command {at + 1} of {len(experiment.commands)}: " if len(experiment.commands) > 1 else ""
    expected, doing = experiment.expected_s, f"{many}{experiment.commands[at]}"
    if spent > SLOWER * expected:
        doing = f"{doing}, slower than on two idle cores; it is stopped after {max_s / 60:.0f} min"
    return Progress(doing, min(spent / expected, 0.97), max(expected - spent, 0.0) if spent < expected else None)
