"""Work on what somebody else wrote, in a process that can be ended: chat templates are programs, and a tokenizer's file
may take all memory or end the process that reads it.

One such process is kept, since it takes longer to start than to answer. Time is bounded everywhere, memory on Linux.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from draftscope.base.errors import DraftscopeError

GIB = 2**30
MEMORY = 2 * GIB  # bytes beside what the process takes by itself
START_S = 120.0  # until the process is ready; it imports transformers
TOO_MUCH = f"it takes more than {MEMORY // GIB} GiB of memory"
PROGRAM = Path(__file__).with_name("bounded_child.py")
# A thread reserves address space, which counts as memory: one of each library is enough.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


class RefusedError(Exception):
    """The work failed or went beyond a bound; the message says which, without a full stop."""


class BoundedProcess:
    """Takes one request at a time. A request beyond its bounds ends the process, and another one is started."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._ready = False  # it has answered
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):  # two processes must not share one pipe
            os.register_at_fork(after_in_child=self._forget)

    def start(self) -> None:
        """Begins to start the process, unless there is one."""
        with self._lock:
            self._started()

    def ask(self, act: str, seconds: float, **given: Any) -> Any:
        """The result of one of the acts of `bounded_child.py`. Raises RefusedError."""
        with self._lock:
            try:
                reply = self._exchange({"act": act, "seconds": seconds, "given": given})
            except BaseException:  # with an interrupt, say: the next one must not read this answer
                self._end()
                raise
        if "error" in reply:
            raise RefusedError(reply["error"].strip().split("\n")[0][:160].rstrip(".") or reply["kind"])
        return reply["result"]

    def close(self) -> None:
        """Ends the process, if there is one, whoever waits for its answer."""
        if (process := self._process) is not None:
            process.kill()
            process.wait()

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer of `bounded_child.py`, or one that says which bound was passed, with a new process after it."""
        process, seconds = self._started(), request["seconds"]
        if not self._ready:
            self._wait_ready(process)
        began = time.monotonic()
        reply = _answer(process, seconds, json.dumps(request) + "\n")
        answer: dict[str, Any] = json.loads(reply) if reply else {"error": _reason(seconds, time.monotonic() - began)}
        if answer.get("kind") == "MemoryError":
            answer["error"] = TOO_MUCH
        if not reply or answer.get("error") == TOO_MUCH:
            self._end()
            self._started()
        return answer

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(PROGRAM), str(MEMORY)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                env=os.environ | ENVIRONMENT, start_new_session=True,
            )  # fmt: skip
        return self._process

    def _wait_ready(self, process: subprocess.Popen[str]) -> None:
        self._ready = _answer(process, START_S) == "ready\n"
        if not self._ready:
            raise DraftscopeError(
                f"The process that reads chat templates and tokenizers did not start within {START_S:.0f} s; try again "
                f"when this machine has less to do, or see what '{sys.executable} {PROGRAM} {MEMORY}' says."
            )

    def _end(self) -> None:
        process, self._process, self._ready = self._process, None, False
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]

    def _forget(self) -> None:
        self._lock, self._process, self._ready = threading.Lock(), None, False


def _answer(process: subprocess.Popen[str], seconds: float, request: str = "") -> str:
    """The next line of the process, which is killed if none comes in time; empty if it has ended."""
    assert process.stdin is not None and process.stdout is not None
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        process.stdin.write(request)
        process.stdin.flush()
        return process.stdout.readline()
    except OSError:  # it has ended
        return ""
    finally:
        timer.cancel()


def _reason(seconds: float, spent: float) -> str:
    """Why a process ended without an answer: Rust ends it where memory is refused."""
    return f"it takes longer than {seconds:g} s" if spent >= seconds else f"it ends the process, or {TOO_MUCH[3:]}"


BOUNDED = BoundedProcess()
