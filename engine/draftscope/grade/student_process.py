"""A student's file in a process of its own: calls go in, values come out, and nothing else is believed."""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self

from draftscope.base.errors import DraftscopeError, quoted
from draftscope.grade import student_limits

CHILD = Path(__file__).with_name("child.py")
START_S = 20.0  # for the file itself: it may import a library
BATCH_S = 20.0
MAX_ANSWER = 8 << 20  # bytes
AT_ONCE = 1000  # calls of a batch
ENVIRONMENT = {"LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

Call = tuple[Sequence[Any], Sequence[float] | None]  # arguments, and the random numbers that `rng` gives


class BrokenError(DraftscopeError):
    """The student's process ended, hung, or wrote what no call returns; the sentence is the student's verdict."""


class StudentProcess:
    """Runs a file. `functions` are those of the wanted ones that it has, `held` what is held back.

    Raises `BrokenError` if the file cannot be run.
    """

    def __init__(self, source: str, name: str, functions: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="draftscope-grade-", ignore_cleanup_errors=True)
        self._read, self._write, self._process = _started(self._folder.name)
        self._came = bytearray()
        try:
            program = student_limits.filter_program().hex()
            self._send(
                {
                    "source": source,
                    "name": name,
                    "functions": functions,
                    "limits": student_limits.LIMITS,
                    "filter": program,
                }
            )
            held_back = _list(self._answer(START_S), "held")  # before any of the file runs
            self.held = [word for word in ("limits", "filter") if word in held_back]
            self.functions = self._functions(functions)
        except BaseException:
            self.close()
            raise

    def _functions(self, wanted: Sequence[str]) -> list[str]:
        said = self._answer(START_S)
        if isinstance(said.get("failed"), str):
            raise BrokenError(f"The file does not run: {quoted(said['failed'], 200)}.")
        there = _list(said, "functions")
        return [name for name in wanted if name in there]

    def calls(self, function: str, made: Sequence[Call]) -> list[Any]:
        """What each call returned: [value], or a string that says why there is no value. Raises `BrokenError`."""
        results: list[Any] = []
        for first in range(0, len(made), AT_ONCE):
            part, batch = made[first : first + AT_ONCE], secrets.token_hex(8)
            self._send({"batch": batch, "function": function, "calls": part})
            said = self._answer(BATCH_S)
            came = said.get("results")
            if said.get("batch") != batch or not isinstance(came, list) or len(came) != len(part):
                raise BrokenError("The file wrote into the grader's pipe; only what a function returns counts.")
            results += came
        return results

    def _send(self, value: Any) -> None:
        """In a pipe that takes 64 KiB at once; a process that reads nothing more is given up."""
        line, end = (json.dumps(value) + "\n").encode(), monotonic() + BATCH_S
        while line:
            if not select.select([], [self._write], [], max(0.0, end - monotonic()))[1]:
                raise BrokenError("The file stopped reading calls; it may not touch the grader's pipe.")
            try:
                line = line[os.write(self._write, line[:4096]) :]
            except OSError:
                raise BrokenError("The file ended the process; a function returns, it does not exit.") from None

    def _answer(self, seconds: float) -> dict[str, Any]:
        end = monotonic() + seconds
        while b"\n" not in self._came:
            if not select.select([self._read], [], [], max(0.0, end - monotonic()))[0]:
                raise BrokenError(f"The file did not answer within {seconds:.0f} s; is there a loop without an end?")
            part = os.read(self._read, 1 << 16)
            self._came += part
            if not part:
                raise BrokenError(self._ended())
            if len(self._came) > MAX_ANSWER:
                raise BrokenError("The file returned more than a token or a list can be.")
        line, _, rest = bytes(self._came).partition(b"\n")
        self._came = bytearray(rest)
        try:
            said = json.loads(line, parse_constant=_refused)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise BrokenError("The file wrote into the grader's pipe; only what a function returns counts.")
        return said

    def _ended(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        if self._process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return f"The file took more than {student_limits.CPU_S} s of computing, or too much memory."
        return "The file ended the process; a function returns, it does not exit."

    def close(self) -> None:
        """Ends the process and all that it began."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._read)
        os.close(self._write)
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _started(folder: str) -> tuple[int, int, subprocess.Popen[bytes]]:
    """The descriptor to read from, the one to write into, and a fresh interpreter that has the other ends."""
    if sys.platform == "win32":
        raise DraftscopeError("Windows cannot hold back a student's process; grade on Linux or macOS.")
    answers, answering = os.pipe()
    calling, calls = os.pipe()
    command = [sys.executable, "-I", str(CHILD), str(calling), str(answering)]
    process = subprocess.Popen(
        command, pass_fds=(calling, answering), cwd=folder, env=ENVIRONMENT, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(answering)
    os.close(calling)
    return answers, calls, process


def _list(said: dict[str, Any], name: str) -> list[Any]:
    value = said.get(name)
    return value if isinstance(value, list) else []


def _refused(constant: str) -> Any:
    raise ValueError(constant)
