"""`F.linear` for bfloat16 on a CPU: the bits of a row do not depend on the number of rows, and weights are not copied.

It computes what the compiled programs do not: other heads, emulated sizes, and the modules of other architectures.
Where the compiled product cannot run, everything here is `F.linear`.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from draftscope.models.native import places as at
from draftscope.models.native.available import programs, why_not
from draftscope.models.native.crowd import crowd
from draftscope.models.native.stored_weight import StoredWeight

SERIAL = 1 << 16  # weights below which one thread is faster than waking the others


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, exact: bool = False) -> Tensor:
    """x [..., in] times weight [out, in]. `exact`: float32 results where the product is compiled, for logits."""
    if not _compiled(x, weight):
        return F.linear(x, weight, bias)
    out = _product(x, weight, exact or bias is not None)
    if bias is not None:
        out += bias
    return out if exact else out.to(x.dtype)


def _compiled(x: Tensor, weight: Tensor) -> bool:
    kind = torch.bfloat16
    fits = x.dtype == kind and weight.dtype == kind and weight.shape[1] % at.BLOCK == 0 and weight.is_contiguous()
    return fits and x.device.type == weight.device.type == "cpu" and not torch.is_grad_enabled() and not why_not()


def stored_linear(x: Tensor, weight: StoredWeight, bias: Tensor | None = None) -> Tensor:
    """x [..., in] in bfloat16 times a weight as it lies in a file."""
    out = _product(x, weight, bias is not None)
    return out if bias is None else (out + bias).to(x.dtype)


def _product(x: Tensor, weight: Tensor | StoredWeight, exact: bool) -> Tensor:
    x = x.contiguous()
    (outputs, length), rows = weight.shape, x.numel() // weight.shape[1]
    product = torch.empty((*x.shape[:-1], outputs), dtype=torch.float32)
    split = torch.empty(rows * length, dtype=torch.float32)
    out = None if exact else torch.empty_like(product, dtype=x.dtype)
    a = np.empty(at.M_ARGUMENTS, dtype=np.int64)
    a[at.M_ROWS], a[at.M_LENGTH], a[at.M_OUTPUTS], a[at.M_X] = rows, length, outputs, x.data_ptr()
    a[at.M_WEIGHT], a[at.M_SPLIT], a[at.M_PRODUCT] = weight.data_ptr(), split.data_ptr(), product.data_ptr()
    a[at.M_OUT] = 0 if out is None else out.data_ptr()
    most = 1 if rows * weight.numel() < SERIAL else torch.get_num_threads()
    with crowd.team(most, (weight.shape, rows)) as threads:
        programs().run(programs().multiply, a, at.M_TEAM, threads)
    return product if out is None else out


class FastLinear(nn.Linear):
    """An `nn.Linear` whose forward is `linear`."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


def accelerate(network: nn.Module) -> None:
    """Makes every `nn.Linear` in `network` a `FastLinear`, in place; names and weights stay the same."""
    for module in network.modules():
        if type(module) is nn.Linear:
            module.__class__ = FastLinear
