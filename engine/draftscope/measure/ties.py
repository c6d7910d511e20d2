"""Ties: where rounding alone decides the target's best token, so that two right forwards may write different ones.

A greedy text that parts from plain's is no difference if each of its tokens, from there to its end, is the target's
best after its own prefix up to rounding: by the target's fp32 logits, it trails the best token by no more than the
bound. The bound is measured on plain's texts, never on the text that is judged: twice the most that the target's own
precision moves the lead of its best token over another one. A wrong rule writes tokens that trail by more; `judged`
says at how many of plain's tokens it would show, and where that is less than half of them nothing is called a tie.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from draftscope.base.text import same_start
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.lane import Lane
from draftscope.decode.run import Run
from draftscope.models.loading.chat import Chat
from draftscope.models.precise import fp32_logits, rounded_logits
from draftscope.trace.events import Divergence

RIVALS = 16  # the tokens nearest to the best one, whose lead is measured
MARGIN = 2.0  # the bound, relative to the largest rounding that was measured
LEAST = 1e-5  # of a logit's size: the rounding of fp32 itself, in another order of summation
ENOUGH = 0.5  # share of plain's tokens at which a wrong token would show


def may_part(engine: DecodingEngine) -> bool:
    """Whether texts are known beforehand to part at ties: in 16 bits on CUDA, forwards of other numbers of rows run
    other kernels, which sum in other orders."""
    return engine.target.device.type == "cuda" and engine.target.dtype.itemsize < torch.float32.itemsize


@dataclass(frozen=True)
class Parting:
    """Where a text leaves the expected one. `gap` is the fp32 logits of the two tokens there, apart; `behind` the most
    that any token from there on trails the target's best one. `tie`: rounding explains all of it."""

    token: int
    gap: float
    behind: float
    tie: bool


class Rounding:
    """What the target's precision does to its greedy choice, measured on plain's texts of `prompts` when first asked.

    `texts` are prompts and what plain wrote after them, as tokens. The bound is `least` or more: another program's
    kernels may round more than this one's.
    """

    def __init__(
        self, engine: DecodingEngine, texts: Sequence[tuple[list[int], list[int]]], least: float = 0.0
    ) -> None:
        self._lab = engine
        self._texts = texts
        self._least = least

    @cached_property
    def _measured(self) -> tuple[float, Tensor]:
        """The largest change of a lead by rounding, and the leads of plain's tokens over the second best, in fp32."""
        largest, leads = 0.0, []
        for prompt, written in self._texts:
            right = self._exact_logits(prompt, written)
            logits = rounded_logits(self._lab.target, prompt, written).float()
            best = right.topk(min(RIVALS, right.shape[-1]), -1)
            lead, rounded = (values[:, :1] - values for values in (best.values, logits.gather(-1, best.indices)))
            scale = float(best.values.abs().max())
            largest = max(largest, float((lead - rounded).abs().max()), LEAST * scale)
            leads.append(lead[:, 1])
        return largest, torch.cat(leads)

    @property
    def bound(self) -> float:
        """How far a greedy token may trail the best one by rounding."""
        return max(MARGIN * self._measured[0], self._least)

    @property
    def judged(self) -> float:
        """The share of plain's tokens that lead by more than the bound: there a wrong token shows."""
        return float((self._measured[1] > self.bound).double().mean())

    def parting(self, prompt: list[int], expected: Sequence[int], written: Sequence[int]) -> Parting | None:
        """Where `written` leaves `expected`, both written after `prompt`; None if they are equal as far as both go."""
        at = same_start(expected, written)
        if at == min(len(expected), len(written)):
            return None
        right = self._exact_logits(prompt, list(written))[at:]
        tokens = torch.tensor(written[at:], device=right.device)[:, None]
        behind = right.amax(-1) - right.gather(-1, tokens)[:, 0]
        gap = abs(float(right[0, expected[at]] - right[0, written[at]]))
        most = float(behind.max())
        return Parting(at, gap, most, most <= self.bound and self.judged >= ENOUGH)

    def __str__(self) -> str:
        expected = ", as expected in 16 bits on CUDA" if may_part(self._lab) else ""
        return (
            f"rounding in {str(self._lab.target.dtype).removeprefix('torch.')} moves a lead by up to "
            f"{self._measured[0]:.3g}, measured; {100 * self.judged:.0f}% of plain's tokens lead by over twice that"
            f"{expected}"
        )

    def _exact_logits(self, prompt: list[int], written: list[int]) -> Tensor:
        """Logits [T, V] in fp32 from which each of `written` [T] was to be chosen."""
        return fp32_logits(self._lab.target, [*prompt, *written[:-1]])[len(prompt) - 1 :]


def parted(
    engine: DecodingEngine, prompt: str, lanes: Mapping[str, Lane], runs: Mapping[str, Run], name: str = "run"
) -> Iterator[Divergence]:
    """For each greedy lane of a race over `prompt` whose text leaves plain decoding's: where, and whether at a tie."""
    plain = next((name for name, lane in lanes.items() if lane.info.name == "plain"), None)
    if plain is None or any(lane.settings.temperature > 0 for lane in lanes.values()):
        return
    tokens, expected = engine.encode(prompt, chat=Chat.of(lanes[plain].settings)), runs[plain].token_ids
    rounding = Rounding(engine, [(tokens, expected)])
    for lane, run in runs.items():
        parting = rounding.parting(tokens, expected, run.token_ids)
        if parting is not None:
            yield Divergence(
                run=name, lane=lane, token=parting.token, gap=parting.gap, behind=parting.behind, bound=rounding.bound,
                tie=parting.tie,
            )  # fmt: skip
