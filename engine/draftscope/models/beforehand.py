"""The compiled programs, made by processes of their own while a model is still fetched and read. Imports no torch.

numba keeps what they compile on the disk, so that whoever needs the programs finds them there. A file beside them says
that they are there: else each start would start these processes. Where one fails, the programs are compiled as always,
by the process that needs them, which then says what is wrong. `python -m draftscope.models.beforehand` compiles all.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from draftscope.base.assets import cache_folder
from draftscope.base.load_settings import LoadSettings
from draftscope.base.stages import Stage, tell

ROOM = Path(__file__).parent / "native"
COMPILED = (*ROOM.glob("*.py"), ROOM.parents[1] / "verify" / "loops.py")  # what numba compiles
CHILD = "draftscope.models.beforehand_child"
PARTS = ("programs", "products")  # what each process compiles
FUNCTION, PART = "function\n", "part\n"  # what it says whenever one is compiled
POLL_S = 0.2
DEVICES, DTYPES = ("auto", "cpu"), ("auto", "bfloat16", "stored")  # for which the programs are needed
NVIDIA = Path("/proc/driver/nvidia")  # on a card nothing is compiled


class _Children:
    """The processes, and what they have said."""

    def __init__(self) -> None:
        self.functions = self.parts = 0
        self._lock = threading.Lock()
        self._listeners = [self._listener(part) for part in PARTS]

    def _listener(self, part: str) -> threading.Thread:
        """Starts a process; the thread that hears it, and ends with it."""
        command = [sys.executable, "-P", "-m", CHILD, part]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip
        listener = threading.Thread(target=self._listen, args=(process,), name="draftscope-compiling", daemon=True)
        listener.start()
        return listener

    def _listen(self, process: subprocess.Popen[str]) -> None:
        with process:
            assert process.stdout is not None
            for line in process.stdout:
                with self._lock:
                    self.functions += line == FUNCTION
                    self.parts += line == PART

    @property
    def running(self) -> bool:
        return any(listener.is_alive() for listener in self._listeners)


_children: _Children | None = None


def begin(load: LoadSettings) -> None:
    """Begins to compile, unless that was done or is not needed for these models."""
    global _children
    needed = load.device in DEVICES and load.dtype in DTYPES
    if needed and _children is None and find_spec("numba") and not NVIDIA.exists() and not _marker().exists():
        _children = _Children()


def finish() -> None:
    """Waits until that is done, and tells how far it is."""
    global _children
    if (children := _children) is None:
        return
    over = threading.Event()
    while children.running:
        whole = len(PARTS)
        tell(Stage.COMPILE, f"{children.functions} functions so far, {whole - children.parts} of {whole} parts left")
        over.wait(POLL_S)
    _children = None


def compiled() -> None:
    """Notes that the programs are on the disk."""
    try:
        _marker().parent.mkdir(parents=True, exist_ok=True)
        _marker().touch()
    except OSError:  # the next process looks again
        return


@lru_cache(maxsize=1)
def _marker() -> Path:
    """Beside what numba keeps, where that can be known; another one for other sources, versions and machines."""
    texts = [path.read_bytes() for path in sorted(COMPILED)]
    machine = (platform.node(), platform.machine(), platform.python_version(), version("numba"), version("llvmlite"))
    forced = (os.environ.get("NUMBA_CPU_NAME", ""), os.environ.get("NUMBA_CPU_FEATURES", ""), str(ROOM))
    digest = sha256(b"".join(texts) + "\n".join((*machine, *forced)).encode()).hexdigest()
    beside = os.environ.get("NUMBA_CACHE_DIR") or (ROOM / "__pycache__" if os.access(ROOM, os.W_OK) else cache_folder())
    return Path(beside) / f"draftscope-{digest[:16]}.compiled"


if __name__ == "__main__":
    from draftscope.models.native.available import why_not
    from draftscope.verify.drawing import loops

    begin(LoadSettings())
    finish()
    print(why_not())
    if loops() is not None and not why_not():
        compiled()
