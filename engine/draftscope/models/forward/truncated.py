"""The list of a transformers model's layers: its first ones as a model that shares its weights, and what its last one
returns.

Early exit drafts with the first ones (Draft & Verify 2309.08168, LayerSkip 2404.16710).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy, deepcopy
from typing import Any

from torch import Tensor
from torch.nn import Module, ModuleList

from draftscope.base.errors import DraftscopeError


def truncated(network: Any, count: int) -> Any:
    """The network with only its first `count` decoder layers and its own embedding, norm and head.

    The list of layers is found by its length; every module on the path to it is copied shallowly, with the new number
    of layers in its config, unless one embedding holds inputs of all layers. Raises DraftscopeError if there is no such
    list, or if a device map has replaced the forward of a module on the path.
    """
    *parents, last = _path(network).split(".")
    cut = module = _shallow(network, count)
    for name in parents:
        inner = _shallow(getattr(module, name), count)
        setattr(module, name, inner)
        module = inner
    if not last or "forward" in vars(module):
        raise DraftscopeError(
            f"The first layers of {type(network).__name__} cannot be run on their own; choose another drafter than "
            "'early-exit', or load the target on one device."
        )
    setattr(module, last, ModuleList(list(getattr(module, last))[:count]))
    return cut


@contextmanager
def final_residual(network: Any) -> Iterator[list[Tensor]]:
    """A list to which a forward inside adds what its last layer returns, [B, T, hidden]: the final norm's input.

    Raises DraftscopeError if there is no list of layers.
    """
    if not (path := _path(network)):
        raise DraftscopeError(
            f"The last layer of {type(network).__name__} is not known, whose output this head reads; choose another "
            "head."
        )
    seen: list[Tensor] = []

    def note(_layer: Module, _inputs: Any, output: Any) -> None:
        seen.append(output[0] if isinstance(output, tuple) else output)

    hook = network.get_submodule(path)[-1].register_forward_hook(note)
    try:
        yield seen
    finally:
        hook.remove()


def _path(network: Any) -> str:
    """Where the list of decoder layers is, which is known by its length; empty if there is none."""
    layers = network.config.get_text_config().num_hidden_layers
    modules = network.named_modules()
    return next((path for path, m in modules if isinstance(m, ModuleList) and len(m) == layers), "")


def _shallow(module: Module, count: int) -> Any:
    """A copy whose children can be replaced without changing the original."""
    shallow: Any = copy(module)
    shallow._modules = dict(module._modules)
    if hasattr(module, "config"):
        shallow.config = deepcopy(module.config)
        text = shallow.config.get_text_config()
        if getattr(text, "hidden_size_per_layer_input", None):
            return shallow
        text.num_hidden_layers = count
        if getattr(text, "layer_types", None):
            text.layer_types = text.layer_types[:count]
    return shallow
