"""What a quantised file's forwards of one to sixteen rows take, as it is stored and widened:
`python -m tests.programs.stored_rows FILE.gguf [--threads N]`.

Both take turns in one process, so the machine needs room for both. A forward's bytes are those of the weights that it
reads; the shortest of the repeats counts, since other programs only ever make one longer.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import torch

from draftscope.base import markdown
from draftscope.decode.calibrate import forward_of
from draftscope.measure.bench.limit import read_a_token
from draftscope.models.loading.checkpoints import CheckpointOptions, find, load_model
from draftscope.models.model import Model

ROWS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
CONTEXT, REPEATS = 64, 20


def shortest(forwards: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Milliseconds by name."""
    spent = dict.fromkeys(forwards, float("inf"))
    for _ in range(REPEATS):
        for name, forward in forwards.items():
            began = perf_counter()
            forward()
            spent[name] = min(spent[name], 1e3 * (perf_counter() - began))
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    models: dict[str, Model] = {}
    for name, stored in (("stored", True), ("bfloat16", False)):
        options = CheckpointOptions(torch.bfloat16, torch.device("cpu"), stored=stored)
        models[name] = load_model(find(arguments.file, options), options)
    caches = {name: model.cache(1, CONTEXT + ROWS[-1]) for name, model in models.items()}
    table = []
    for rows in ROWS:
        spent = shortest({name: forward_of(models[name], caches[name], rows, CONTEXT) for name in models})
        speeds = [f"{read_a_token(models[name]) / ms / 1e6:.1f}" for name, ms in spent.items()]
        table.append([str(rows), *(f"{ms:.1f}" for ms in spent.values()), *speeds])
    print(markdown.table(["rows", "stored, ms", "bfloat16, ms", "stored, GB/s", "bfloat16, GB/s"], table))


if __name__ == "__main__":
    main()
