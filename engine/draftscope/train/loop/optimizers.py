"""Muon for the matrices between hidden states, AdamW for the rest, one schedule over both.

Muon is torch's own. Its rate is scaled to the size of AdamW's updates, so one weight
decay and rates of one order of magnitude fit both.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

WARM_UP, DECAY = 0.02, 0.30  # shares of the budget


@dataclass(frozen=True)
class Rates:
    """Peak learning rates."""

    matrices: float
    rest: float


class Optimizers:
    """Both optimisers behind one `step`."""

    def __init__(self, model: torch.nn.Module, rates: Rates) -> None:
        named = list(model.named_parameters())
        matrices = [w for name, w in named if _between_hidden(name, w)]
        rest = [w for name, w in named if not _between_hidden(name, w)]
        self._rates = (rates.matrices, rates.rest)
        self._both: tuple[torch.optim.Optimizer, ...] = (
            torch.optim.Muon(matrices, lr=rates.matrices, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(rest, lr=rates.rest, betas=(0.9, 0.95), weight_decay=0.0),
        )

    def step(self, factor: float) -> None:
        """Apply the gradients at `factor` times the peak rates, then forget them."""
        for optimizer, rate in zip(self._both, self._rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def state(self) -> list[dict[str, object]]:
        return [optimizer.state_dict() for optimizer in self._both]

    def restore(self, state: list[dict[str, object]]) -> None:
        for optimizer, saved in zip(self._both, state, strict=True):
            optimizer.load_state_dict(saved)


def _between_hidden(name: str, weight: torch.Tensor) -> bool:
    """A matrix, but no embedding and no output weights: these have a row for each token."""
    return weight.ndim == 2 and "embed" not in name and "lm_head" not in name


def schedule(share: float, overall: float) -> float:
    """Warm up, hold, then decay to zero: the factor on the peak rates when `share` in [0, 1] of a run is done.

    `overall` is the share of all that the weights will have read. It decides on the decay: weights that have ended one
    go on where a single long run would stand, since a full rate unlearns more than a short run learns again. Unlike
    a cosine, a longer budget given to an interrupted run changes nothing that was already done before the decay.
    """
    return min(1.0, (share + 0.001) / WARM_UP, max(0.0, 1.0 - overall) / DECAY)
