"""The target's part of a round: its forward, its distributions, the verification, and the rows that its cache keeps.

With CUDA graphs all of this is one graph. Otherwise it runs step by step, and the rows are kept once the host knows the
result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from draftscope.base.common_settings import LOSSY
from draftscope.decode.stopwatch import Stopwatch
from draftscope.drafters.drafter import Drafter
from draftscope.models.cache.slots import SlotCache
from draftscope.models.forward.experts import Watch
from draftscope.models.forward.graphs import WIDEST, GraphMode, Outputs
from draftscope.models.model import Model
from draftscope.verify.sampling import Sampling
from draftscope.verify.tree import DraftTree
from draftscope.verify.uniforms import Uniforms
from draftscope.verify.verify import Rule, Verification, verify_block, verify_greedy, verify_lossy, verify_tree

TARGET_BROKEN, DRAFT_BROKEN = -1, -2  # in place of a round's last token: a distribution is not finite


@dataclass(frozen=True)
class JudgedTrees:
    """What the target says of B trees of N nodes."""

    logits: Tensor  # [B, N + 1, V] before temperature and truncation
    features: Tensor | None  # [B, N + 1, F] that the drafter reads
    p: Tensor | None  # [B, N + 1, V] the distributions; None at temperature 0
    verification: Verification
    result: Tensor  # [B, X] for the host: path, last token, the tree's tokens, argmax if the drafter reads it
    pending: Tensor  # [B, 1] row 0 of the next round
    length: Tensor | None = None  # [B] of the texts in the cache, if it has kept its rows already


class TargetPass:
    """The target of one session, with its cache."""

    def __init__(
        self, target: Model, cache: SlotCache, drafter: Drafter, sampling: Sampling, rule: Rule, watch: Stopwatch
    ) -> None:
        self._target, self._cache, self._drafter = target, cache, drafter
        self._sampling, self._rule, self._watch = sampling, rule, watch

    def judge(
        self, tree: DraftTree, uniforms: Uniforms, pending: Tensor, live: Sequence[bool], experts: Watch | None
    ) -> JudgedTrees:
        """Reads the pending tokens [B, 1] and the trees, and verifies them with a round's uniforms.

        `experts` records which experts the forward uses.
        """
        if self._target.graph_mode is GraphMode.ALL and experts is None and tree.nodes < WIDEST:
            judged = self._as_one_graph(tree, uniforms, pending, live)
            self._watch.launched("verify")
            return judged
        if experts is not None:
            experts.begin()
        logits, features = self._forward(tree, pending)
        if experts is not None:
            experts.end()
        self._watch.launched("verify")
        return self._judged(logits, features, tree, uniforms.first(tree.nodes))

    def keep(self, judged: JudgedTrees, tree: DraftTree, lengths: Sequence[int], live: Sequence[bool]) -> None:
        """Makes row 0 and the accepted path permanent in the cache, whose texts then have these lengths, or, where they
        are not `live`, keep no new rows."""
        if judged.length is None:
            self._keep(tree, judged.verification, self._mask(live), max(lengths))
        else:
            self._cache.table.commit(judged.length, max(lengths), least=self._cache.table.least)
        self._cache.table.know_least(min(lengths) - 1)  # a text that has ended may have its last token unread

    def accept(self, logits: Tensor, tree: DraftTree, uniforms: Uniforms) -> tuple[Tensor | None, Verification]:
        """The distributions [B, N + 1, V], None at temperature 0, and the verification."""
        if self._sampling.greedy:
            highest, best = logits.max(-1)  # a NaN counts as the highest
            verification = verify_greedy(best, tree)
            broken = ~highest.sum(-1).isfinite()
            return None, replace(verification, last=verification.last.masked_fill(broken, TARGET_BROKEN))
        p = self._sampling.distribution(logits)
        verification = self._verify(p, tree, uniforms)
        return p, replace(verification, last=_marked(verification.last, p, tree))

    def _as_one_graph(self, tree: DraftTree, uniforms: Uniforms, pending: Tensor, live: Sequence[bool]) -> JudgedTrees:
        """All of it, the cache's part too. The graph is that of a tree's size; its shape is an input."""
        form, greedy, mask = tree.topology, self._sampling.greedy, self._mask(live)
        q = None if greedy else tree.distributions
        bound = self._cache.table.bound + tree.nodes + 1
        given = [pending, tree.tokens, tree.never_accepted, tree.proposal_row, uniforms.accept, uniforms.last]
        given += [form.parents, form.children, form.ancestors, form.depth]

        def call(*inputs: Tensor) -> Outputs:
            pending, tokens, never_accepted, proposal_row, accept, last, parents, children, ancestors, depth = inputs[
                : len(given)
            ]
            more = list(inputs[len(given) :])
            shape = replace(form, parents=parents, children=children, ancestors=ancestors, depth=depth)
            same = replace(
                tree,
                topology=shape,
                tokens=tokens,
                never_accepted=never_accepted,
                proposal_row=proposal_row,
                distributions=more.pop(0) if q is not None else None,
            )
            judged = self._judged(*self._forward(same, pending), same, Uniforms(accept, accept, last).first(tree.nodes))
            self._keep(same, judged.verification, more[0] if more else None, bound)
            known = judged.logits, judged.features, judged.p, judged.result, judged.pending
            return *known, self._cache.table.length, *judged.verification.parts

        ranks = None if greedy or tree.drawn == "none" else form.ranks
        key = form.width, form.height, form.is_chain, tree.drawn, ranks, self._sampling, self._rule
        names = key, self._drafter.layers, self._drafter.reads_argmax
        more = [tensor for tensor in (q, mask) if tensor is not None]
        outputs = self._target.loop(self._cache, call, (names, len(more)), (*given, *more), [tree.nodes + 1])
        logits, features, p, result, following, length, *parts = outputs
        return JudgedTrees(logits, features, p, Verification.of_parts(tuple(parts)), result, following, length)

    def _forward(self, tree: DraftTree, pending: Tensor) -> tuple[Tensor, Tensor | None]:
        """The round's only target forward, of the pending token and the nodes: logits [B, N + 1, V] and features."""
        form = tree.topology
        sees = None if form.is_chain else form.ancestors
        rows = torch.cat([pending, tree.tokens], 1) if tree.nodes else pending
        return self._target.forward_with_features(self._cache, rows, form.depth, sees, self._drafter.layers)

    def _judged(self, logits: Tensor, features: Tensor | None, tree: DraftTree, uniforms: Uniforms) -> JudgedTrees:
        p, verification = self.accept(logits, tree, uniforms)
        argmax = [logits.argmax(-1)] if self._drafter.reads_argmax else []
        last = verification.last[:, None]
        result = torch.cat([verification.path, last, tree.tokens, *argmax], 1) if tree.nodes or argmax else last
        return JudgedTrees(logits, features, p, verification, result, last.clamp(min=0))

    def _verify(self, p: Tensor, tree: DraftTree, uniforms: Uniforms) -> Verification:
        drawn_chain = tree.nodes > 0 and tree.drawn == "all" and tree.topology.is_chain
        if self._rule.name == "block" and drawn_chain:
            return verify_block(p, tree, uniforms)
        if self._rule.name in LOSSY and drawn_chain:
            return verify_lossy(p, tree, uniforms, self._rule)
        return verify_tree(p, tree, uniforms)

    def _keep(self, tree: DraftTree, verification: Verification, live: Tensor | None, bound: int) -> None:
        kept = verification.accepted + 1
        if live is not None:
            kept = kept * live
        if tree.topology.is_chain:
            self._cache.keep_first(kept, bound)
        else:
            rows = torch.where(verification.path >= 0, verification.path + 1, -1)
            root = torch.zeros_like(rows[:, :1])
            self._cache.keep(torch.cat([root, rows], 1), kept, bound)

    def _mask(self, live: Sequence[bool]) -> Tensor | None:
        """[B]: which texts keep rows; None if all do."""
        return None if all(live) else _on_device(tuple(live), self._target.device)


@lru_cache(maxsize=64)
def _on_device(live: tuple[bool, ...], device: torch.device) -> Tensor:
    return torch.tensor(live, device=device)


def _marked(last: Tensor, p: Tensor, tree: DraftTree) -> Tensor:
    """`last` [B], with a negative mark where a distribution of the round is not finite. Does not wait for the device.

    Softmax makes every entry of a row NaN if one logit is NaN or infinite, so that one entry of a row [V] is enough,
    and their sum is NaN if one of them is.
    """
    if tree.distributions is not None:
        last = last.masked_fill(tree.distributions[..., 0].sum(-1).isnan(), DRAFT_BROKEN)
    return last.masked_fill(p[..., 0].sum(-1).isnan(), TARGET_BROKEN)
