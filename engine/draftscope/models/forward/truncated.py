"""A transformers model cut off behind its first layers: the same weights, shallow modules, nothing stored twice.

What an early exit drafts with (Draft & Verify 2309.08168, LayerSkip 2404.16710).
"""

from __future__ import annotations

from copy import copy, deepcopy
from typing import Any

from torch.nn import Module, ModuleList

from draftscope.base.errors import DraftscopeError


def truncated(network: Any, count: int) -> Any:
    """The network with its first `count` decoder layers, its own embedding, norm and head.

    The list of layers is found by its length; every module on the way to it is copied shallowly and told the new
    number. DraftscopeError where there is no such list, or where a device map has bound a module's forward to itself.
    """
    layers = network.config.get_text_config().num_hidden_layers
    found = (path for path, each in network.named_modules() if isinstance(each, ModuleList) and len(each) == layers)
    path = next(found, "")
    *way, last = path.split(".")
    cut = module = _shallow(network, count)
    for name in way:
        inner = _shallow(getattr(module, name), count)
        setattr(module, name, inner)
        module = inner
    if not last or "forward" in vars(module):
        raise DraftscopeError(
            f"The layers of {type(network).__name__} cannot be taken apart here; choose another drafter than "
            "'early-exit', or load the target on one device."
        )
    setattr(module, last, ModuleList(list(getattr(module, last))[:count]))
    return cut


def _shallow(module: Module, count: int) -> Any:
    """A copy whose children can be exchanged without the original noticing."""
    twin: Any = copy(module)
    twin._modules = dict(module._modules)
    if hasattr(module, "config"):
        twin.config = deepcopy(module.config)
        text = twin.config.get_text_config()
        text.num_hidden_layers = count
        if getattr(text, "layer_types", None):
            text.layer_types = text.layer_types[:count]
    return twin
