"""Which experts a forward of a mixture of experts touches: what a verify of several rows really reads from memory.

A token wakes a few experts, its neighbours others: more rows are no longer free. Counted are the distinct ones, layer
by layer, as the routers chose them in that very forward. Nothing listens unless a run is recorded.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from draftscope.trace import events


class Watch:
    """Listens to the experts of a network while `listening`. `close` takes the ears off again."""

    def __init__(self, modules: list[Any]) -> None:
        self.listening = False
        self._of: int = modules[0].num_experts
        self._chosen: list[Tensor] = []  # [rows, k] of each layer that was heard in this forward
        self._handles = [module.register_forward_pre_hook(self._hear, with_kwargs=True) for module in modules]

    def begin(self) -> None:
        """The next forward is listened to."""
        self.listening, self._chosen = True, []

    def end(self) -> None:
        self.listening = False

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()

    def note(self) -> events.Experts | None:
        """What was heard; None where these experts are not told whom they serve, but all compute everything."""
        if not self._chosen:
            return None
        # behind the last expert, an index stands for those of another device
        touched = [int((torch.unique(each) < self._of).sum()) for each in self._chosen]
        rows, active = self._chosen[0].shape
        return events.Experts(touched=touched, of=self._of, active=active, rows=rows)

    def _hear(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # noqa: ARG002
        if self.listening:
            given = (*args, *kwargs.values())
            whole = (each for each in given if isinstance(each, Tensor) and each.dtype in (torch.int64, torch.int32))
            self._chosen += [each.flatten(0, -2) for each in whole][:1]


def layers(network: Any) -> list[Any]:
    """The modules that hold experts, in order; none for a dense network."""
    named = (each for each in network.modules() if type(each).__name__.endswith("Experts"))
    return [each for each in named if isinstance(getattr(each, "num_experts", None), int)]


def watch(network: Any) -> Watch | None:
    """Ears on every layer with experts; None for a network without."""
    modules = layers(network)
    return Watch(modules) if modules else None
