"""The first layers of a transformers model, as a model that shares its weights.

Early exit drafts with it (Draft & Verify 2309.08168, LayerSkip 2404.16710).
"""

from __future__ import annotations

from copy import copy, deepcopy
from typing import Any

from torch.nn import Module, ModuleList

from draftscope.base.errors import DraftscopeError


def truncated(network: Any, count: int) -> Any:
    """The network with only its first `count` decoder layers and its own embedding, norm and head.

    The list of layers is found by its length; every module on the path to it is copied shallowly, with the new number
    of layers in its config, unless one embedding holds inputs of all layers. Raises DraftscopeError if there is no such
    list, or if a device map has replaced the forward of a module on the path.
    """
    layers = network.config.get_text_config().num_hidden_layers
    lists = (
        path for path, module in network.named_modules() if isinstance(module, ModuleList) and len(module) == layers
    )
    *parents, last = next(lists, "").split(".")
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
