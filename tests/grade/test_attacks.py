"""Nothing that a student's file does changes a grade, or reaches the grader. Every attack has a wrong rule."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from draftscope.grade import student_process
from draftscope.grade.grade import Graded, grade
from draftscope.grade.student_limits import filter_program

WRONG = "def accept_or_correct(p, q, token, rng):\n    rng()\n    return True, token\n"
FILTERED = pytest.mark.skipif(not filter_program(), reason="the filter of system calls is for Linux on x86-64")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For files that hang: a verdict of right would come, or never."""
    monkeypatch.setattr(student_process, "BATCH_S", 1.0)
    monkeypatch.setattr(student_process, "START_S", 1.0)


def graded(tmp_path: Path, source: str) -> Graded:
    path = tmp_path / "work.py"
    path.write_text(source)
    return grade(path, ["accept"])


BODIES = {
    "prints": "print('right. ' * 1000)",
    "prints without an end": "while True: print('x' * 10**6)",
    "exits": "import sys; sys.exit(0)",
    "exits hard": "import os; os._exit(0)",
    "never returns": "while True: pass",
    "sleeps": "import time; time.sleep(10**6)",
    "takes all memory": "x = ['y' * 10**7 for _ in range(10**6)]",
    "recurses": "f = lambda: f(); f()",
    "crashes": "import ctypes; ctypes.string_at(0)",
    "raises what is no exception": "raise KeyboardInterrupt",
    "closes the pipes": "import os; os.closerange(3, 64)",
    "begins threads": "import threading\n    for _ in range(10000): threading.Thread(target=lambda: None).start()",
    "forks": "import os\n    while True: os.fork()",
    "begins programs": "import subprocess; subprocess.run(['true'])",
}
RETURNS = {
    "nothing": "None", "infinity": "(True, float('inf'))", "nan": "(float('nan'), float('nan'))", "text": "'right'",
    "a huge number": "(True, 10**10000)", "a list without an end": "[[]] * 10**6", "itself": "(lambda x: x)",
    "a deep list": "__import__('functools').reduce(lambda x, _: [x], range(10**4), 0)", "bytes": "b'x'",
    "true as a text": "('right', token)", "three": "(True, token, token)", "another token": "(True, 1 - min(token, 1))",
    "a token that is none": "(False, 99)", "a negative one": "(False, -1)", "a float": "(False, 0.5)",
}  # fmt: skip


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_what_a_function_does_is_its_own_loss(tmp_path: Path, body: str) -> None:
    found = graded(tmp_path, f"def accept_or_correct(p, q, token, rng):\n    {body}\n    return True, token\n")
    assert not found.right and len(found.verdicts) == 1 and "\n" not in found.verdicts[0].sentence


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_so_is_what_a_file_does(tmp_path: Path, body: str) -> None:
    if "threads" in body:
        body = "pass"
    source = body.replace("\n    ", "\n") + "\n" + WRONG
    found = graded(tmp_path, source)
    assert not found.right and "\n" not in found.verdicts[0].sentence


@pytest.mark.parametrize("value", RETURNS.values(), ids=RETURNS)
def test_what_a_function_returns_is_judged_as_it_is(tmp_path: Path, value: str) -> None:
    found = graded(tmp_path, f"def accept_or_correct(p, q, token, rng):\n    rng()\n    return {value}\n")
    assert not found.right and len(found.verdicts[0].sentence) < 400


FORGED = """
import json, os, sys, threading
{rule}
def shout():
    for fd in range(3, 10):
        try:
            for _ in range(100):
                os.write(fd, ({line!r} + chr(10)).encode())
        except OSError:
            pass
{when}
"""


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("when", ["shout()", "threading.Thread(target=shout).start()"])
@pytest.mark.parametrize(
    "line",
    [
        '{"right": true}',
        '{"batch": "0", "results": []}',
        "not json",
        '{"results": NaN}',
        "[" * 10**5,
        '{"held": ["filter"]}',
    ],
    ids=["verdict", "results", "text", "nan", "deep", "held"],
)
def test_what_is_written_into_the_pipe_is_no_answer(tmp_path: Path, line: str, when: str) -> None:
    assert not graded(tmp_path, FORGED.format(rule=WRONG, line=line, when=when)).right


PATCHED = {
    "json": "import json; json.dumps = lambda *a, **k: '{\"right\": true}'",
    "the harness": "import sys; m = sys.modules['__main__']; m.call = lambda *a: [[True, 0]]",
    "random": "import random; random.SystemRandom = None",
    "the frames": "import sys; sys._getframe(1).f_globals['answer'] = lambda *a: None",
    "builtins": "import builtins; builtins.len = lambda x: 1",
}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("patch", PATCHED.values(), ids=PATCHED)
def test_patching_its_own_process_is_no_way_to_a_grade(tmp_path: Path, patch: str) -> None:
    assert not graded(tmp_path, f"{patch}\n{WRONG}").right


def test_numbers_of_its_own_are_noticed(tmp_path: Path) -> None:
    source = "import random\ndef accept_or_correct(p, q, token, rng):\n    return True, random.randrange(len(p))\n"
    verdict = graded(tmp_path, source).verdicts[0]
    assert not verdict.right
    own = "import random\ndef verify_chain(p, q, d, t, rng):\n    return [random.randrange(len(p[0]))]\n"
    (tmp_path / "own.py").write_text(own)
    assert "draw with rng() only" in grade(tmp_path / "own.py").verdicts[0].sentence


def test_more_numbers_than_decisions_are_noticed(tmp_path: Path) -> None:
    source = "def accept_or_correct(p, q, token, rng):\n    return True, [rng() for _ in range(9)] and token\n"
    assert "more than 2 random numbers" in graded(tmp_path, source).verdicts[0].sentence


def test_nothing_that_is_expected_is_in_the_process(tmp_path: Path) -> None:
    """The rule of this program is not among the modules that a file finds."""
    source = "import sys\nassert not [name for name in sys.modules if 'draftscope' in name]\n" + WRONG
    assert "your output" in graded(tmp_path, source).verdicts[0].sentence


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0


@pytest.mark.usefixtures("impatient")
def test_no_process_is_left(tmp_path: Path) -> None:
    """Nor a thread, nor an open file; threads of other tests may end meanwhile."""
    threads, opened = set(threading.enumerate()), open_files()
    graded(tmp_path, "import time\n" + WRONG.replace("rng()", "time.sleep(10**6)"))
    assert set(threading.enumerate()) <= threads and open_files() <= opened


REFUSED = {
    "kill the grader": "os.kill(os.getppid(), 0)",
    "fork": "os.fork()",
    "run a program": "os.execv('/bin/true', ['true'])",
    "open a socket": "__import__('socket').socket()",
    "write a file": "open({path!r}, 'a')",
    "create a file": "open({path!r} + '.new', 'x')",
    "empty a file": "os.truncate({path!r}, 0)",
    "remove a file": "os.remove({path!r})",
    "rename a file": "os.rename({path!r}, {path!r} + '.old')",
    "make a folder": "os.mkdir({path!r} + '.d')",
    "link a file": "os.link({path!r}, {path!r} + '.l')",
    "change its mode": "os.chmod({path!r}, 0)",
    "write into the grader": "open(f'/proc/{{os.getppid()}}/mem', 'r+b')",
    "limit the grader": "__import__('resource').prlimit(os.getppid(), 0, (1, 1))",
}


@FILTERED
@pytest.mark.parametrize("action", REFUSED.values(), ids=REFUSED)
def test_the_system_refuses(tmp_path: Path, action: str) -> None:
    """The file says by its output what happened: it is the rule's only where the action was refused."""
    path = tmp_path / "kept.txt"
    path.write_text("kept")
    body = action.format(path=str(path))
    source = (
        f"import os\ntry:\n    {body}\n    refused = False\nexcept PermissionError:\n    refused = True\n"
        "def accept_or_correct(p, q, token, rng):\n    rng()\n    return (True, token) if refused else (False, 99)\n"
    )
    found = graded(tmp_path, source)
    assert "filter" in found.held
    assert "your output" in found.verdicts[0].sentence, found.verdicts[0].sentence
    assert path.read_text() == "kept" and {each.name for each in tmp_path.iterdir()} == {"kept.txt", "work.py"}
