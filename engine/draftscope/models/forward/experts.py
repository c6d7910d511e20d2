"""Counts the experts that a forward of a mixture of experts uses, and thus reads from memory.

Each token is routed to a few experts, and other tokens to others, so verifying more rows reads more weights. The count
is of distinct experts in each layer, as chosen by the routers in that forward. Only recorded runs are watched.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from draftscope.trace import events


class Watch:
    """Records the chosen experts of a network between `begin` and `end`. `close` removes its hooks."""

    def __init__(self, modules: list[Any]) -> None:
        self.recording = False
        self._of: int = modules[0].num_experts
        self._chosen: list[Tensor] = []  # [rows, k] for each layer of this forward
        self._handles = [module.register_forward_pre_hook(self._record, with_kwargs=True) for module in modules]

    def begin(self) -> None:
        """Records the next forward."""
        self.recording, self._chosen = True, []

    def end(self) -> None:
        self.recording = False

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()

    def note(self) -> events.Experts | None:
        """The recorded experts; None for modules that get no indices, because all experts compute all tokens."""
        if not self._chosen:
            return None
        # an index after the last expert stands for an expert on another device
        touched = [int((torch.unique(indices) < self._of).sum()) for indices in self._chosen]
        rows, active = self._chosen[0].shape
        return events.Experts(touched=touched, of=self._of, active=active, rows=rows)

    def _record(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # noqa: ARG002
        if self.recording:
            inputs = (*args, *kwargs.values())
            indices = (item for item in inputs if isinstance(item, Tensor) and item.dtype in (torch.int64, torch.int32))
            self._chosen += [index.flatten(0, -2) for index in indices][:1]


def layers(network: Any) -> list[Any]:
    """The modules that contain experts, in order; empty for a dense network."""
    candidates = (module for module in network.modules() if type(module).__name__.endswith("Experts"))
    return [candidate for candidate in candidates if isinstance(getattr(candidate, "num_experts", None), int)]


def watch(network: Any) -> Watch | None:
    """A watch on every layer with experts; None for a network without experts."""
    modules = layers(network)
    return Watch(modules) if modules else None
