"""The process in which a student's file runs: it reads calls and writes what they returned. Standard library only.

It runs by its path with `python -I`, and gets two descriptors. The first line is what to hold back and the file; then a
line for each batch of calls of one function. Nothing that is expected is ever in here: whatever the file does to this
process, it can only change what is returned.
"""

import ctypes
import json
import os
import resource
import struct
import sys
import types
from typing import Any, TextIO

MAX_ITEMS, MAX_DEPTH = 64, 3  # of a returned list
MAX_DIGITS = 1 << 62


class OutOfNumbersError(Exception):
    """The function asked for more random numbers than it has decisions."""


def main(read: int, write: int) -> None:
    calls = os.fdopen(read, "r", encoding="utf-8")
    answers = os.fdopen(write, "w", encoding="utf-8")
    begin = json.loads(calls.readline())
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # what the file prints goes nowhere, however much it is
        os.dup2(nothing, stream)
    answer(answers, {"held": hold_back(begin)})
    module = types.ModuleType("student")
    try:
        exec(compile(begin["source"], begin["name"], "exec"), vars(module))
    except BaseException as error:
        answer(answers, {"failed": reason(error)})
        return
    answer(answers, {"functions": [name for name in begin["functions"] if callable(vars(module).get(name))]})
    for line in calls:
        batch = json.loads(line)
        function = vars(module).get(batch["function"])
        answer(answers, {"batch": batch["batch"], "results": [call(function, *made) for made in batch["calls"]]})


def answer(answers: TextIO, value: object) -> None:
    answers.write(json.dumps(value, allow_nan=False) + "\n")
    answers.flush()


def call(function: Any, arguments: list[Any], uniforms: list[float] | None) -> Any:
    """[value], or the reason why there is none."""
    left = list(reversed(uniforms or []))

    def rng() -> float:
        if not left:
            raise OutOfNumbersError
        return left.pop()

    try:
        return [plain(function(*arguments, *([] if uniforms is None else [rng])))]
    except OutOfNumbersError:
        return "more numbers"
    except BaseException as error:
        return reason(error)


def plain(value: Any, depth: int = 0) -> Any:
    """The value in JSON's own types; what else it is becomes a sentence."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (list, tuple)) and depth < MAX_DEPTH and len(value) <= MAX_ITEMS:
        return [plain(item, depth + 1) for item in value]
    if hasattr(value, "tolist"):  # of an array, a tensor, or one of their numbers
        return plain(value.tolist(), depth + 1) if depth <= MAX_DEPTH else {"type": "a deep list"}
    if isinstance(value, int) and abs(value) < MAX_DIGITS:
        return int(value)
    if isinstance(value, str):
        return value[:40]
    return {"type": type(value).__name__[:40]}


def reason(error: BaseException) -> str:
    """One line that says what went wrong, and where in the file."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") == "student":
            line = trace.tb_lineno
        trace = trace.tb_next
    line = error.lineno if isinstance(error, SyntaxError) else line
    try:
        words = " ".join(str(error).split())[:120]
    except BaseException:
        words = ""
    return f"{type(error).__name__}{f' ({words})' if words else ''}{f' in line {line}' if line else ''}"


def hold_back(begin: dict[str, Any]) -> list[str]:
    """Sets the limits, and returns which kinds of them hold."""
    for name, most in begin["limits"].items():
        number = getattr(resource, name, None)
        if number is not None:
            resource.setrlimit(number, (most, most))
    return ["limits", *(["filter"] if begin["filter"] and filtered(bytes.fromhex(begin["filter"])) else [])]


def filtered(program: bytes) -> bool:
    """Installs a filter of system calls, which no code of this process can take away again."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(program, len(program))
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code)))
    if libc.prctl(38, 1, 0, 0, 0):  # PR_SET_NO_NEW_PRIVS
        return False
    return bool(libc.prctl(22, 2, ctypes.byref(head), 0, 0) == 0)  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
