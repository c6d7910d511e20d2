"""vLLM takes a Triton without a GPU for none. Its interpreter (TRITON_INTERPRET=1) runs the kernels on a CPU too."""

from types import SimpleNamespace

from triton.backends import backends

backends["cpu"] = SimpleNamespace(driver=None)
