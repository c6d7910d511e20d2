"""What the rounds of sampled runs must satisfy one by one, whatever text they write. Cheap: it looks at runs that the
test of the joint distribution makes anyway, and sees wrong rules in far fewer of them.

`FavouredTokens`: given all that came before a round, its first token follows the target's distribution p. So whatever f
was fixed before the draw, f(token) - E_p f is fair, and the sum S of it over all rounds of all runs is a martingale. A
wrong rule writes the tokens that the draft favours too often or too seldom, so f says how much it favours a token:
min(1, q/p) where children are drawn from q, else whether the token is a child. With V the sum of the variances,
exp(l S - (e^|l| - 1 - |l|) V) is a supermartingale for every l (Freedman 1975), and so is a mean over several l: by
Ville's inequality it exceeds 1 / a with a probability of at most a, at any number of rounds.

`UsedUniforms`: no random number may be used twice in a run. A second use biases the text by less than samples show.

`ProbabilitySums`: the probabilities that a rule divides must be those that the tokens were drawn with, each row of them
summing to 1. Rounded to 16 bits they do not, and the text is off by less than samples show.

p is the one that the engine computed: whether that is the target's own is what the joint distribution is tested for.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from draftscope.decode.session import Step

SLOPES = tuple(sign * size for size in (0.01, 0.03, 0.1, 0.3, 1.0) for sign in (1, -1))  # l


class FavouredTokens:
    """How often the first token of a round is one that the draft favours, against how often it should be."""

    def __init__(self) -> None:
        self.rounds = 0
        self.written = 0.0  # sums over the rounds
        self.due = 0.0
        self.variance = 0.0

    def add(self, step: Step) -> None:
        """The rounds of one step, of the sequences that had not ended."""
        tree = step.tree
        if step.p is None or not tree.nodes:
            return
        first = step.verification.path[:, 0]  # [B] node, -1 if none was accepted
        drafted = tree.tokens.gather(1, first.clamp(min=0)[:, None])[:, 0]
        written = torch.where(first >= 0, drafted, step.verification.last)
        p = step.p[:, 0].double()
        favoured = _favoured(step, p)  # [B, V]
        due = (p * favoured).sum(-1)
        variance = (p * favoured**2).sum(-1) - due**2
        counted = torch.tensor(step.live, device=p.device) & (variance > 1e-12)
        self.rounds += int(counted.sum())
        self.written += float(favoured.gather(1, written[:, None])[:, 0][counted].sum())
        self.due += float(due[counted].sum())
        self.variance += float(variance[counted].sum())

    @property
    def p_value(self) -> float:
        """Of the rule being right; at most x with a probability of at most x, however many rounds were looked at."""
        excess = self.written - self.due
        exponents = [each * excess - (math.expm1(abs(each)) - abs(each)) * self.variance for each in SLOPES]
        largest = max(exponents)
        log_mean = largest + math.log(sum(math.exp(each - largest) for each in exponents) / len(SLOPES))
        return math.exp(min(0.0, -log_mean))

    def detectable(self, false_alarm: float) -> float:
        """The least difference of the two shares, written and due, that counts as one in these rounds."""
        bound = math.log(len(SLOPES) / false_alarm)
        least = min((bound + (math.expm1(up) - up) * self.variance) / up for up in SLOPES if up > 0)
        return least / max(self.rounds, 1)


def _favoured(step: Step, p: Tensor) -> Tensor:
    """f [B, V] in [0, 1], known before the round's first token was drawn. `p` [B, V] is the root's."""
    tree = step.tree
    children = tree.topology.children[:, 0]  # [B, K] node, -1 = none
    there = children >= 0
    tokens = tree.tokens.gather(1, children.clamp(min=0))
    chosen = torch.zeros_like(p).scatter_reduce(1, tokens, there.double(), "amax")
    if tree.distributions is None or not tree.distributions.shape[1]:
        return chosen
    row = tree.proposal_row[:, 0]  # [B] -1: children chosen without chance
    q = tree.distributions[torch.arange(len(row), device=row.device), row.clamp(min=0)].double()
    drawn = torch.where(p > 0, q / p.clamp(min=1e-300), 1.0).clamp(max=1.0)
    return torch.where((row >= 0)[:, None], drawn, chosen)


class ProbabilitySums:
    """How far a row of p, or of q from which children were drawn, is from summing to 1 at most."""

    MOST = 1e-4  # fp32 rows of 150,000 tokens are off by about 1e-6; in bf16 rows of three by about 1e-3

    def __init__(self) -> None:
        self.rows = 0
        self.target = self.draft = 0.0  # the largest distance; infinite if a probability is negative or not a number

    def add(self, step: Step) -> None:
        """The rows of one step, of the sequences that had not ended."""
        if step.p is None:
            return
        live, tree = torch.tensor(step.live, device=step.p.device), step.tree
        self.target = max(self.target, self._off(step.p[live]))
        if tree.distributions is None or not tree.nodes:
            return
        used = torch.zeros(tree.distributions.shape[:2], dtype=torch.bool, device=step.p.device)
        used.scatter_(1, tree.proposal_row.clamp(min=0), tree.proposal_row >= 0)
        self.draft = max(self.draft, self._off(tree.distributions[used & live[:, None]]))

    def _off(self, rows: Tensor) -> float:
        """rows [..., V]"""
        self.rows += rows[..., 0].numel()
        if not rows.numel():
            return 0.0
        off = float((rows.sum(-1, dtype=torch.float64) - 1).abs().max())
        return off if math.isfinite(off) and float(rows.min()) >= 0 else math.inf


class UsedUniforms:
    """The uniform random numbers of runs, and how many of them were met before in the same run."""

    def __init__(self) -> None:
        self.used = self.again = 0
        self._runs: list[np.ndarray] = []  # of the batch that is being decoded: which run,
        self._values: list[np.ndarray] = []  # and what it used

    def add(self, step: Step) -> None:
        if step.index == 0:
            self.end()
        if step.p is None:  # greedy: none is used
            return
        values = torch.cat([step.uniforms.draft, step.uniforms.accept, step.uniforms.last], 1).cpu().numpy()
        live = np.array(step.live)
        self._values.append(values[live].ravel())
        self._runs.append(np.repeat(np.array(step.rows)[live], values.shape[1]))

    def end(self) -> None:
        """A batch of runs is whole."""
        if self._values:
            values, runs = np.concatenate(self._values), np.concatenate(self._runs)
            order = np.lexsort((values, runs))
            values, runs = values[order], runs[order]
            self.used += len(values)
            self.again += int(((values[1:] == values[:-1]) & (runs[1:] == runs[:-1])).sum())
        self._values, self._runs = [], []
