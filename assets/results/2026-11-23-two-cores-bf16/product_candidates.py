"""Ways to multiply few rows by bfloat16 weights, tried beside the one that is kept: product-candidates.md.

All are timed in turn on the shapes of the weights of a model, without what an engine adds around a product: arguments
and results are made before. `--torch` adds what torch compiles, which takes minutes and needs g++, as the C++ kernels
do; those also need AVX512-bf16. With `--busy`, seconds are one thread's own processor time, for a machine with other
work.
"""

import argparse
import ctypes
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, thread_time

import numpy as np
import torch
from torch import Tensor

from draftscope.base import markdown
from draftscope.measure.products import COPY, MODELS
from draftscope.models.native import places as at
from draftscope.models.native import team
from draftscope.models.native.available import programs

TIMES = 9
Way = Callable[[], object]


def weights_of(name: str, layers: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn((outputs, inputs), generator=generator).mul_(inputs**-0.5).bfloat16()
        for count, outputs, inputs in MODELS[name]
        for _ in range(min(count, layers))
    ]


def kept(weights: list[Tensor], rows: dict[int, Tensor], count: int) -> Way:
    """The product of `models/native`, without the Python around it."""
    alive, threads = [], torch.get_num_threads()
    for weight in weights:
        x, (outputs, length) = rows[weight.shape[1]], weight.shape
        product, split = torch.empty((count, outputs)), torch.empty(count * length)
        a = np.zeros(at.M_ARGUMENTS, dtype=np.int64)
        a[at.M_ROWS], a[at.M_LENGTH], a[at.M_OUTPUTS], a[at.M_X] = count, length, outputs, x.data_ptr()
        a[at.M_WEIGHT], a[at.M_SPLIT], a[at.M_PRODUCT] = weight.data_ptr(), split.data_ptr(), product.data_ptr()
        alive.append((a, product, split, int(a.ctypes.data)))
    run, program = programs().run, programs().multiply
    return lambda: [run(program, each[3], threads, 0) for each in alive]


def library() -> ctypes.CDLL:
    """The C++ kernels, on torch's own OpenMP library."""
    source, folder = Path(__file__).parent / "product_kernels.cpp", Path(tempfile.gettempdir())
    compiled, shared = folder / "product_kernels.o", folder / "product_kernels.so"
    subprocess.run(["g++", "-O3", "-march=native", "-fopenmp", "-fPIC", "-c", source, "-o", compiled], check=True)
    subprocess.run(["g++", "-shared", compiled, "-o", shared], check=True)
    mapped = Path("/proc/self/maps").read_text().splitlines()
    gomp = next(line.split(maxsplit=5)[5] for line in mapped if "gomp" in line)
    ctypes.CDLL(gomp, ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(shared))


def in_cpp(found: ctypes.CDLL, weights: list[Tensor], rows: dict[int, Tensor], count: int, widen: int) -> Way:
    found.multiply.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 3 + [ctypes.c_void_p, ctypes.c_int64]
    made = []
    for weight in weights:
        x, out = rows[weight.shape[1]], torch.empty((count, len(weight)))
        sizes = count, weight.shape[1], len(weight)
        made.append((out, (x.data_ptr(), weight.data_ptr(), *sizes, out.data_ptr(), widen)))
    found.multiply(*made[0][1])
    assert torch.allclose(made[0][0], rows[weights[0].shape[1]].float() @ weights[0].float().T, atol=0.05)
    return lambda: [found.multiply(*each) for _, each in made]


def packed(weights: list[Tensor], rows: dict[int, Tensor], count: int) -> Way:
    """oneDNN with the layout that it wants for this number of rows."""
    reorder, multiply = torch.ops.mkldnn._reorder_linear_weight, torch.ops.mkldnn._linear_pointwise.default
    pairs = [(rows[weight.shape[1]], reorder(weight, count)) for weight in weights]
    return lambda: [multiply(x, blocks, None, "none", [], "") for x, blocks in pairs]


class Products(torch.nn.Module):
    def __init__(self, weights: list[Tensor]) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList([torch.nn.Parameter(each, requires_grad=False) for each in weights])

    def forward(self, *rows: Tensor) -> list[Tensor]:
        of = {x.shape[1]: x for x in rows}
        return [torch.nn.functional.linear(of[weight.shape[1]], weight) for weight in self.weights]


def compiled(weights: list[Tensor], rows: dict[int, Tensor], tuned: bool) -> Way:
    torch._dynamo.reset()
    options = {"freezing": True, "max_autotune": tuned, "max_autotune_gemm_backends": "CPP,ATEN", "cpp_wrapper": True}
    run, given = torch.compile(Products(weights).eval(), dynamic=False, options=options), tuple(rows.values())
    run(*given)
    return lambda: run(*given)


def ahead_of_time(weights: list[Tensor], rows: dict[int, Tensor]) -> Way:
    given = tuple(rows.values())
    with torch.no_grad():
        exported = torch.export.export(Products(weights).eval(), given)
        package = torch._inductor.aoti_compile_and_package(exported, inductor_configs={"freezing": True})
    run = torch._inductor.aoti_load_package(package)
    return lambda: run(*given)


@torch.inference_mode()
def made(weights: list[Tensor], count: int, torch_too: bool) -> dict[str, Way]:
    """All ways for one number of rows."""
    rows = {weight.shape[1]: torch.ones((count, weight.shape[1]), dtype=torch.bfloat16) for weight in weights}
    source = torch.ones(sum(weight.nbytes for weight in weights), dtype=torch.uint8)
    target, found = torch.zeros_like(source), library()
    ways: dict[str, Way] = {
        COPY: lambda: target.copy_(source),
        "numba, widened to float32 (kept)": kept(weights, rows, count),
        "C++, widened to float32": in_cpp(found, weights, rows, count, 1),
        "C++, vdpbf16ps": in_cpp(found, weights, rows, count, 0),
        "oneDNN, packed for the number of rows": packed(weights, rows, count),
    }
    if torch_too:
        with torch.inference_mode(False), torch.no_grad():
            ways["torch.compile, frozen"] = compiled(weights, rows, False)
            ways["torch.compile, frozen, max-autotune"] = compiled(weights, rows, True)
            ways["AOTInductor, frozen"] = ahead_of_time(weights, rows)
    return ways


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 2, 5, 8, 16])
    parser.add_argument("--layers", type=int, default=1000, help="at most so many weights of each shape")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--busy", action="store_true")
    given = parser.parse_args()
    if given.busy:
        torch.set_num_threads(1)
    clock = thread_time if given.busy else perf_counter
    weights = weights_of(given.model, given.layers)
    team.start()
    ways = {count: made(weights, count, given.torch) for count in given.rows}
    taken: dict[tuple[str, int], list[float]] = {}
    for repeat in range(TIMES + 1):
        for count, calls in ways.items():
            for way, call in calls.items():
                began = clock()
                call()
                if repeat:
                    taken.setdefault((way, count), []).append(clock() - began)
    size = sum(weight.nbytes for weight in weights)
    speeds = {key: size / 1e9 / statistics.median(each) for key, each in taken.items()}
    lines = [(way, *(f"{speeds[way, count]:.1f}" for count in ways)) for way in next(iter(ways.values()))]
    print(f"{given.model}, {size / 1e6:.0f} MB, threads: {torch.get_num_threads()}\n")
    print(markdown.table(("GB/s of weights", *(f"{count} rows" for count in ways)), lines))


if __name__ == "__main__":
    main()
