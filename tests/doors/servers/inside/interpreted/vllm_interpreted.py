"""A plugin for vLLM with TRITON_INTERPRET=1: what Triton's interpreter cannot run is done by other means."""

from __future__ import annotations

from types import SimpleNamespace


def replace() -> None:
    from triton.runtime.interpreter import InterpreterBuilder
    from vllm.triton_utils import tl
    from vllm.v1.sample.ops import topk_topp_sampler
    from vllm.v1.worker.gpu.spec_decode import rejection_sampler_utils

    topk_topp_sampler.HAS_TRITON = False  # PyTorch does the same
    rejection_sampler_utils.tldevice = SimpleNamespace(log1p=lambda x: tl.log(1.0 + x))  # of CUDA's library

    for name, place in (("create_masked_load", 1), ("create_masked_store", 2)):
        setattr(InterpreterBuilder, name, with_mask(getattr(InterpreterBuilder, name), place))


def with_mask(original, place):
    """A mask may have integers in it."""

    def call(builder, *given):
        given[place].data = given[place].data.astype(bool)
        return original(builder, *given)

    return call
