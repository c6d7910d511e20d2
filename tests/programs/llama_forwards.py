"""Times forwards of llama.cpp for `stored_rows.py`: `PYTHON llama_forwards.py FILE.gguf THREADS CONTEXT`.

It runs by a Python that has the packages `xllamacpp` (llama.cpp as a library), `cffi` and `llama-cpp-py-sync`, of which
only the text of llama.cpp's header is read, and imports nothing of this project. It prints `ready`, and then for each
number of rows that it reads the milliseconds of a forward of so many tokens behind the context.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

FIRST = 100  # token id


def _place(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"This Python has no package '{package}'; install it there: pip install {package.replace('_', '-')}.")
    return Path(next(iter(spec.submodule_search_locations)))


def _library() -> tuple[Any, Any]:
    ffi = import_module("cffi").FFI()  # which this project does not need

    header = (_place("llama_cpp_py_sync") / "_cffi_bindings.py").read_text(encoding="utf-8")
    text = re.search(r'_LLAMA_H_CDEF = """(.*?)"""', header, re.S)
    if text is None:
        sys.exit("llama-cpp-py-sync has no header text where it was; install version 0.11739.")
    ffi.cdef(text[1])
    return ffi, ffi.dlopen(str(_place("xllamacpp") / "xllamacpp.abi3.so"))


class Forwards:
    """A model of llama.cpp with a context that is read."""

    def __init__(self, path: str, threads: int, context: int) -> None:
        self.ffi, self.library = ffi, library = _library()
        self.context = context
        self.log = ffi.callback("void(enum ggml_log_level, const char *, void *)", lambda *_: None)
        library.llama_log_set(self.log, ffi.NULL)
        library.llama_backend_init()
        model, of = library.llama_model_default_params(), library.llama_context_default_params()
        if of.n_ctx != 512 or not of.offload_kqv:  # llama.cpp's own defaults
            sys.exit("The header of llama-cpp-py-sync is not that of xllamacpp's library; install versions that fit.")
        model.n_gpu_layers = 0
        of.n_ctx, of.n_batch, of.n_threads, of.n_threads_batch, of.flash_attn_type = 1024, 512, threads, threads, 1
        self.model = library.llama_model_load_from_file(path.encode(), model)
        self.state = library.llama_init_from_model(self.model, of) if self.model else None
        if not self.state:
            sys.exit(f"llama.cpp cannot load '{path}'.")
        self.spent(context, 0)

    def spent(self, rows: int, first: int) -> float:
        """Milliseconds of a forward of `rows` tokens from position `first` on, with the logits of all."""
        batch = self.library.llama_batch_init(rows, 0, 1)
        batch.n_tokens = rows
        for row in range(rows):
            batch.token[row], batch.pos[row], batch.n_seq_id[row] = FIRST + row, first + row, 1
            batch.seq_id[row][0], batch.logits[row] = 0, 1
        began = perf_counter()
        failed = self.library.llama_decode(self.state, batch)
        self.library.llama_synchronize(self.state)
        spent = 1e3 * (perf_counter() - began)
        self.library.llama_batch_free(batch)
        if failed:
            sys.exit(f"llama_decode answered {failed}.")
        return spent

    def behind(self, rows: int) -> float:
        spent = self.spent(rows, self.context)
        self.library.llama_memory_seq_rm(self.library.llama_get_memory(self.state), 0, self.context, -1)
        return spent


def main() -> None:
    path, threads, context = sys.argv[1], *map(int, sys.argv[2:])
    forwards = Forwards(path, threads, context)
    print("ready", flush=True)
    for line in sys.stdin:
        print(forwards.behind(int(line)), flush=True)


if __name__ == "__main__":
    main()
