"""What the rounds of sampled runs must satisfy one by one, whatever text they write. Cheap: it looks at runs that the
test of the joint distribution makes anyway, and sees wrong rules in far fewer of them.

`FavouredTokens`: given all that came before a round, its first token follows the target's distribution p. So whatever f
was fixed before the draw, f(token) - E_p f is fair, and the sum S of it over all rounds of all runs is a martingale. A
wrong rule writes the tokens that the draft favours too often or too seldom, so f says how much it favours a token:
min(1, q/p) where children are drawn from q, else whether the token is a child. With V the sum of the variances,
exp(l S - (e^|l| - 1 - |l|) V) is a supermartingale for every l (Freedman 1975), and so is a mean over several l: by
Ville's inequality it exceeds 1 / a with a probability of at most a, at any number of rounds.

`DraftedTokens`: given all that came before it, the first child of a slot follows the distribution q that the drafter
says it was drawn from. So the same sum, over all such children and several f, is a martingale too. A q that is not the
one that was drawn from shows, whether its tokens are accepted or not. Later siblings are left out: q has changed.

`Decisions`: how many drafted tokens were accepted and rejected where the target left both open. A check that saw few of
them has tested little, whatever its other tests say.

`UsedUniforms`: no random number may be used twice in a run. A second use biases the text by less than samples show.

`ProbabilitySums`: the probabilities that a rule divides must be those that the tokens were drawn with, each row of them
summing to 1. Rounded to 16 bits they do not, and the text is off by less than samples show.

p is the one that the engine computed: whether that is the target's own is what the joint distribution is tested for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from draftscope.decode.session import Step

SLOPES = tuple(sign * size for size in (0.01, 0.03, 0.1, 0.3, 1.0) for sign in (1, -1))  # l
OPEN = 0.01, 0.99  # p of a drafted token between which its verdict is open


def fair_p_value(excess: Sequence[float], variance: Sequence[float]) -> float:
    """Of fair draws, for the sums of one or more f over them; at most x with a probability of at most x, however many
    draws were looked at. `excess`: written less due, and the sum of the variances, for each f."""
    exponents = [
        slope * sum_ - (math.expm1(abs(slope)) - abs(slope)) * spread
        for sum_, spread in zip(excess, variance, strict=True)
        for slope in SLOPES
    ]
    largest = max(exponents)
    log_mean = largest + math.log(sum(math.exp(one - largest) for one in exponents) / len(exponents))
    return math.exp(min(0.0, -log_mean))


def detectable_excess(variance: float, functions: int, false_alarm: float) -> float:
    """The smallest excess of one f that counts as a difference where so many f are looked at."""
    bound = math.log(functions * len(SLOPES) / false_alarm)
    return min((bound + (math.expm1(slope) - slope) * variance) / slope for slope in SLOPES if slope > 0)


class FairSums:
    """Sums of `functions` f of fair draws, an entry each: as they were written, as was due, and their variance."""

    functions = 1

    def __init__(self) -> None:
        self.draws = 0
        self.written, self.due, self.variance = (np.zeros(self.functions) for _ in range(3))

    @property
    def p_value(self) -> float:
        """Of the draws being fair; at most x with a probability of at most x, however many were looked at."""
        return fair_p_value(list(self.written - self.due), list(self.variance))

    def detectable(self, false_alarm: float) -> float:
        """The smallest difference of the mean of the first f, written and due, that counts as one in these draws."""
        return detectable_excess(float(self.variance[0]), self.functions, false_alarm) / max(self.draws, 1)


class FavouredTokens(FairSums):
    """How often the first token of a round is one that the draft favours, against how often it should be."""

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
        self.draws += int(counted.sum())
        self.written += float(favoured.gather(1, written[:, None])[:, 0][counted].sum())
        self.due += float(due[counted].sum())
        self.variance += float(variance[counted].sum())


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


class DraftedTokens(FairSums):
    """Whether drafted tokens follow the q that they were said to be drawn from, by four functions f of a token: its q,
    and its p, each relative to its row's largest; its place in the cumulative q; how far that is from the middle. And
    whether the random number that judges a token has to do with that place, as it has where a drafter draws with it."""

    functions = 5

    def add(self, step: Step) -> None:
        """The draws of one step, of the sequences that had not ended."""
        tree = step.tree
        if step.p is None or tree.distributions is None or not tree.nodes or tree.drawn == "none":
            return
        live = torch.tensor(step.live, device=step.p.device)
        for slot in range(tree.nodes):
            child, row = tree.topology.children[:, slot, 0], tree.proposal_row[:, slot]
            drawn = live & (child >= 0) & (row >= 0)
            drawn &= ~tree.never_accepted.gather(1, child.clamp(min=0)[:, None])[:, 0]
            if not bool(drawn.any()):
                continue
            rows = drawn.nonzero()[:, 0]
            tokens = tree.tokens[rows, child[rows]]
            judged_by = step.uniforms.accept[rows, child[rows]]
            self._add(tree.distributions[rows, row[rows]].double(), step.p[rows, slot].double(), tokens, judged_by)

    def _add(self, q: Tensor, p: Tensor, tokens: Tensor, judged_by: Tensor) -> None:
        """q [D, V] and p [D, V] of the slots, the tokens [D] drawn at them, and the uniforms [D] that judge these."""
        q = q / q.sum(-1, keepdim=True).clamp(min=1e-300)
        place = q.cumsum(-1) - q / 2
        for k, values in enumerate((_relative(q), _relative(p), place, (2 * place - 1).abs())):
            due = (q * values).sum(-1)
            self.written[k] += float(values.gather(1, tokens[:, None]).sum())
            self.due[k] += float(due.sum())
            self.variance[k] += float(((q * values**2).sum(-1) - due**2).clamp(min=0).sum())
        off = 2 * place.gather(1, tokens[:, None])[:, 0] - 1
        self.written[-1] += float(((judged_by - 0.5) * off).sum())
        self.variance[-1] += float((off**2).sum()) / 12
        self.draws += len(tokens)


def _relative(distribution: Tensor) -> Tensor:
    """A distribution [D, V], each row divided by its largest probability."""
    return distribution / distribution.amax(-1, keepdim=True).clamp(min=1e-300)


class Decisions:
    """How many drafted tokens were accepted and rejected where the target might have written them or not."""

    def __init__(self) -> None:
        self.accepted = self.rejected = 0

    def add(self, step: Step) -> None:
        """The rounds of one step, of the sequences that had not ended. Of rejected siblings the first is counted."""
        tree = step.tree
        if step.p is None or not tree.nodes:
            return
        batch = torch.arange(len(step.live), device=step.p.device)[:, None]
        p = step.p[batch, tree.topology.parents + 1, tree.tokens]  # [B, N]
        open_ = ((p > OPEN[0]) & (p < OPEN[1]) & ~tree.never_accepted).tolist()
        children = tree.topology.children[:, :, 0].tolist()
        for b, path in enumerate(step.paths):
            if not step.live[b]:
                continue
            self.accepted += sum(open_[b][node] for node in path)
            refused = children[b][path[-1] + 1 if path else 0]
            self.rejected += refused >= 0 and open_[b][refused]


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
