"""What a quantised file's forwards of one to sixteen rows take, as it is stored, widened, and in llama.cpp:
`python -m tests.programs.stored_rows FILE.gguf [--threads N] [--llama PYTHON] [--avx2] [--save FILE.md]`.

All take turns, so the machine needs room for all. A forward's bytes are those of the weights that it reads; the
shortest of the repeats counts, since other programs only ever make one longer. `--llama` names a Python that has
llama.cpp as a library (`llama_forwards.py` says which packages); it waits in a process of its own while the others
compute. `--avx2` limits the code of this project to the instructions of a processor without AVX-512, but neither torch
nor llama.cpp.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter, sleep

ROWS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
CONTEXT, REPEATS = 64, 20
PAUSE = 0.02  # seconds until the threads of who had the turn before no longer wait for work on a core
AVX2 = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+sse4.2,+avx,+avx2,+fma,+bmi,+bmi2,+f16c"}
LLAMA = "llama.cpp"
Timed = Callable[[int], float]  # milliseconds of a forward of so many rows


class Llama:
    """llama.cpp in another process; it computes only while it is asked."""

    def __init__(self, python: Path, file: Path, threads: int) -> None:
        program = Path(__file__).with_name("llama_forwards.py")
        command = [str(python), str(program), str(file), str(threads), str(CONTEXT)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    def __enter__(self) -> Llama:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def __call__(self, rows: int) -> float:
        assert self.process.stdin is not None
        print(rows, file=self.process.stdin, flush=True)
        return float(self._answer())

    def _answer(self) -> str:
        assert self.process.stdout is not None
        if line := self.process.stdout.readline().strip():
            return line
        raise SystemExit("llama.cpp ended; what it printed says why.")


def ours(file: Path) -> tuple[dict[str, Timed], dict[str, int]]:
    """The forwards of this project by name, and the bytes that each reads."""
    import torch

    from draftscope.decode.calibration import forward_of
    from draftscope.measure.bench.limit import read_a_token
    from draftscope.models.loading.checkpoints import CheckpointOptions, find, load_model

    forwards: dict[str, Timed] = {}
    sizes: dict[str, int] = {}
    for name, stored in (("stored", True), ("bfloat16", False)):
        options = CheckpointOptions(torch.bfloat16, torch.device("cpu"), stored=stored)
        model = load_model(find(file, options), options)
        cache = model.cache(1, CONTEXT + ROWS[-1])
        made = {rows: forward_of(model, cache, rows, CONTEXT) for rows in ROWS}

        forwards[name], sizes[name] = partial(_timed, made), int(read_a_token(model))
    return forwards, sizes


def _timed(forwards: dict[int, Callable[[], object]], rows: int) -> float:
    began = perf_counter()
    forwards[rows]()
    return 1e3 * (perf_counter() - began)


def shortest(forwards: dict[str, Timed], rows: int) -> dict[str, float]:
    """Milliseconds by name."""
    spent = dict.fromkeys(forwards, float("inf"))
    for _ in range(REPEATS):
        for name, forward in forwards.items():
            sleep(PAUSE)
            spent[name] = min(spent[name], forward(rows))
    return spent


def table(forwards: dict[str, Timed], sizes: dict[str, int]) -> str:
    from draftscope.base import markdown

    heading = ["rows", *(f"{name}, ms" for name in forwards), *(f"{name}, GB/s" for name in sizes)]
    if LLAMA in forwards:
        heading.append(f"stored / {LLAMA}")
    lines = []
    for rows in ROWS:
        spent = shortest(forwards, rows)
        line = [str(rows), *(f"{ms:.1f}" for ms in spent.values())]
        line += [f"{size / spent[name] / 1e6:.1f}" for name, size in sizes.items()]
        lines.append([*line, f"{spent['stored'] / spent[LLAMA]:.2f}"] if LLAMA in spent else line)
    return markdown.table(heading, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--llama", type=Path, metavar="PYTHON")
    parser.add_argument("--avx2", action="store_true")
    parser.add_argument("--save", type=Path, metavar="FILE.md")
    given = parser.parse_args()
    if given.avx2:
        os.environ |= AVX2  # before numba is imported
    import torch

    from draftscope.models.native.available import instructions

    if given.threads is not None:
        torch.set_num_threads(given.threads)
    threads = torch.get_num_threads()
    forwards, sizes = ours(given.file)
    with ExitStack() as stack:
        if given.llama is not None:
            forwards[LLAMA] = stack.enter_context(Llama(given.llama, given.file, threads))
        text = table(forwards, sizes)
    limited = f" ({LLAMA} and torch are not limited)" if given.avx2 else ""
    heading = (
        f"{given.file.name}, {instructions()}{limited}, {threads} threads, context {CONTEXT}, shortest of {REPEATS} in "
        f"turn, {datetime.now(UTC).date()}, `{' '.join(['stored_rows', *sys.argv[1:]])}`"
    )
    print(f"{heading}\n\n{text}")
    if given.save is not None:
        given.save.write_text(f"{heading}\n\n{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
