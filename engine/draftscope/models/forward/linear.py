"""Linear layers with a constant weight: on a CPU in bfloat16, the weight is packed once for the kernel.

oneDNN reorders a weight into blocks before it multiplies. `F.linear` does this at every call, which takes as long as
the matmul itself if there are few rows; here it is done when a model is loaded. The results are the same. The weight is
then in memory twice, so this is only done for small models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Product = Callable[[Tensor], Tensor]  # [..., in] -> [..., out]


def product(weight: Tensor, packed: bool, bias: Tensor | None = None) -> Product:
    """Multiplication by weight [out, in]; `packed` requests the kernel's own layout, if there is one and no bias."""
    on_cpu = weight.device.type == "cpu"
    if packed and on_cpu and bias is None and weight.dtype == torch.bfloat16 and torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        try:
            return _packed(weight)
        except (AttributeError, RuntimeError):
            pass  # this build of torch has no such kernel
    return lambda x: F.linear(x, weight, bias)


def _packed(weight: Tensor) -> Product:
    blocks = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    multiply = torch.ops.mkldnn._linear_pointwise.default

    def run(x: Tensor) -> Tensor:
        return multiply(x, blocks, None, "none", [], "")  # type: ignore[no-any-return]

    if not torch.allclose(run(weight[:1]), F.linear(weight[:1], weight), rtol=0.05, atol=0.05):
        raise RuntimeError("the packed product gives different results")
    return run


def joined(modules: Sequence[nn.Linear]) -> Tensor:
    """The concatenated weight of several modules; each module's weight becomes a view of it."""
    together = torch.cat([module.weight.data for module in modules])
    start = 0
    for module in modules:
        end = start + len(module.weight)
        module.weight.data = together[start:end]
        start = end
    return together
