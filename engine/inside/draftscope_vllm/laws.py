"""Distributions over the vocabulary, many rows at once, and the numbers that are kept of them.

A comparison of all numbers is slow on a CPU; where their signs say the same, those are used.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad, threshold

TOP = 8  # tokens of a distribution that are kept
BLOCK = 64  # tokens among which the likeliest one is looked up first


class Laws:
    """Distributions, a row each, with the sum and the likeliest tokens of each."""

    def __init__(self, law: Tensor) -> None:
        self.law, self.total = law, row_sums(law)
        self.clean = law if bool(self.total.isfinite().all()) else law.nan_to_num(0)
        self.best = _likeliest(self.clean)

    def __len__(self) -> int:
        return len(self.law)

    def __getitem__(self, rows: slice) -> Laws:
        part = Laws.__new__(Laws)
        part.law, part.total, part.clean, part.best = (
            tensor[rows] for tensor in (self.law, self.total, self.clean, self.best)
        )
        return part

    def of(self, tokens: Tensor) -> list[Any]:
        """Of one token in each row."""
        return numbers(self.law.gather(1, tokens[:, None]).flatten())

    def top(self) -> list[Any]:
        return numbers(self.law.gather(1, self.best))

    def kept(self) -> list[list[int]]:
        """How many tokens each row keeps, and how many of them are its least likely ones."""
        above = threshold(self.clean, 0.0, 2.0)  # what is not kept lies above all that is
        others = (above - above.amin(-1, keepdim=True)).sign_().sum(-1)
        kept = self.clean.sign().sum(-1)
        least = torch.minimum(self.clean.shape[-1] - others, kept)  # where nothing is kept, nothing
        return torch.stack([kept, least], 1).long().tolist()

    def beside(self, tokens: Tensor) -> tuple[list[float], list[float]]:
        """The mass of all tokens that are likelier than one in each row, and of all that are as likely."""
        mass = self.law.gather(1, tokens[:, None])
        side = (self.law - mass).sign_()  # 1: likelier, 0: as likely, -1: less likely
        equal = (self.law.shape[-1] - side.abs().sum(-1)).double() * mass.flatten()
        above = row_sums(side.clamp_min_(0).mul_(self.law))
        return above.nan_to_num(0).tolist(), equal.nan_to_num(0).tolist()

    def with_mass(self, others: Tensor) -> Tensor:
        """The likeliest tokens; in place of those without any mass, one of `others`."""
        return self.best.where(self.clean.gather(1, self.best) > 0, others[:, None])

    def rest(self, ids: Tensor) -> Tensor:
        """Without some tokens of each row."""
        return self.clean.scatter(1, ids, 0.0)


def _likeliest(law: Tensor) -> Tensor:
    """The likeliest tokens of each row, in order: they are in the blocks that have the likeliest ones."""
    blocks = pad(law, (0, -law.shape[-1] % BLOCK), value=-1.0).reshape(len(law), -1, BLOCK)
    which = blocks.amax(-1).topk(min(TOP, blocks.shape[1])).indices
    among = blocks.gather(1, which[..., None].expand(-1, -1, BLOCK)).flatten(1)
    best: Tensor = among.topk(min(TOP, law.shape[-1])).indices
    return which.gather(1, best // BLOCK) * BLOCK + best % BLOCK


def row_sums(rows: Tensor) -> Tensor:
    return rows.sum(-1, dtype=torch.float64)


def numbers(values: Tensor) -> list[Any]:
    """As lists; None: not a number, or without bound."""
    listed: list[Any] = values.tolist()
    return listed if bool(values.isfinite().all()) else [_finite(entry) for entry in listed]


def _finite(value: Any) -> Any:
    return [_finite(entry) for entry in value] if isinstance(value, list) else value if math.isfinite(value) else None
