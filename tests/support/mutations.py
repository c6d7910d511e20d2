"""Broken engines: each mutation breaks one thing that this field gets wrong. `draftscope check` and the tests of the
distribution must see every one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from draftscope.decode import session
from draftscope.decode.session import Session
from draftscope.decode.target_pass import TargetPass
from draftscope.drafters.heads import positions
from draftscope.drafters.model import levels, ssd
from draftscope.models.cache.slots import SlotCache
from draftscope.verify import drawing, verify
from draftscope.verify.tree import DraftTree
from draftscope.verify.uniforms import Purpose, Streams, Uniforms, uniforms
from tests.support.contracts import chains, contracted, trees


def of_trees(patch: pytest.MonkeyPatch, change: Callable[[DraftTree, Any], DraftTree]) -> None:
    """Every proposed tree with drawn children is changed; `change` also gets the session."""
    right = Session._propose

    def propose(self: Session, *given: Any) -> DraftTree:
        tree = right(self, *given)
        return tree if tree.drawn == "none" or not tree.nodes else change(tree, self)

    patch.setattr(Session, "_propose", propose)


def argmax_drafts(patch: pytest.MonkeyPatch) -> None:
    """Tokens are the draft's best ones, and verified as if they had been drawn."""
    for module in (levels, positions, ssd):
        patch.setattr(module, "draw", lambda distribution, _: distribution.argmax(-1))


def unwarped_q(patch: pytest.MonkeyPatch) -> None:
    """Tokens are drawn after temperature and top-k, and verified with the probabilities before them."""

    def flat(tree: DraftTree, _: Any) -> DraftTree:
        assert tree.distributions is not None
        wide = tree.distributions.clamp(min=1e-6) ** 0.5
        return replace(tree, distributions=wide / wide.sum(-1, keepdim=True))

    of_trees(patch, flat)


def bf16_q(patch: pytest.MonkeyPatch) -> None:
    """Tokens are drawn from fp32 probabilities, and verified with them rounded to bfloat16."""

    def rounded(tree: DraftTree, _: Any) -> DraftTree:
        assert tree.distributions is not None
        return replace(tree, distributions=tree.distributions.bfloat16().float())

    of_trees(patch, rounded)


def last_from_p(patch: pytest.MonkeyPatch) -> None:
    """After a rejection the last token is drawn from p instead of the residual."""
    patch.setattr(drawing, "loops", lambda: None)
    patch.setattr(verify, "_residual_at", lambda p, _, slot: verify._rows(p, slot))
    patch.setattr(verify, "_block_residual", lambda p, _, __, accepted: verify._rows(p, accepted).double())


def q_keeps_rejected(patch: pytest.MonkeyPatch) -> None:
    """The next sibling is verified with the q that still has the rejected one."""
    right = verify.reject
    patch.setattr(verify, "reject", lambda p, q, token: (right(p, q, token)[0], q))


def reranked(patch: pytest.MonkeyPatch) -> None:
    """Draws twice the children it needs and keeps the likeliest: each was drawn, but some were dropped when seen."""
    right = levels.draw_distinct

    def best_of_twice(distribution: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
        tokens, real = right(distribution, torch.cat([uniforms, (uniforms * 7919.0) % 1.0], -1))
        best = distribution.gather(-1, tokens).masked_fill(~real, -1.0).topk(uniforms.shape[-1], -1).indices
        return tokens.gather(-1, best), real.gather(-1, best)

    patch.setattr(levels, "draw_distinct", best_of_twice)


def improbable_dropped(patch: pytest.MonkeyPatch, least: float = 0.4) -> None:
    """A chain ends before the first token that was drawn although it is improbable."""

    def shorter(tree: DraftTree, _: Any) -> DraftTree:
        if tree.drawn != "all" or not tree.topology.is_chain:
            return tree
        assert tree.distributions is not None
        q = tree.distributions[:, : tree.nodes].gather(2, tree.tokens[:, :, None])[:, :, 0]
        return replace(tree, never_accepted=tree.never_accepted | ((q < least).cumsum(-1) > 0))

    of_trees(patch, shorter)


def token_dropped(patch: pytest.MonkeyPatch) -> None:
    """An adaptive length that leaves out the very token that it found unlikely."""
    kept = positions.PositionsChain._kept
    patch.setattr(positions.PositionsChain, "_kept", lambda *given: [count - (count < 3) for count in kept(*given)])


class PositionKeyed(Streams):
    """Uniforms keyed by the position of the token they decide: the next round meets uniforms that decided this one."""

    texts: list[list[int]]

    def uniforms(self, round_index: int, nodes: int, device: torch.device | str = "cpu") -> Uniforms:
        rows: dict[Purpose, list[Tensor]] = {purpose: [] for purpose in Purpose}
        for sequence, text in zip(self.sequences, self.texts, strict=True):
            for purpose in Purpose:
                stream = uniforms(self.seed, sequence, 0, purpose, 0, len(text) + nodes + 1)
                rows[purpose].append(torch.from_numpy(stream[len(text) : len(text) + nodes + 1]))
        draft, accept, last = (torch.stack(rows[purpose]) for purpose in Purpose)
        return Uniforms(draft[:, :nodes], accept[:, :nodes], last)


def reused_noise(patch: pytest.MonkeyPatch) -> None:
    """Random numbers are keyed by position, not by round: what decided a rejected token decides the next one."""
    right = Session.__init__

    def keyed(self: Session, *args: Any, **kwargs: Any) -> None:
        right(self, *args, **kwargs)
        self._streams = PositionKeyed(self._streams.seed, self._streams.sequences)
        object.__setattr__(self._streams, "texts", self._texts)

    patch.setattr(Session, "__init__", keyed)
    patch.setattr(session, "COMPACT_AT", 2.0)  # its texts are those of the whole batch


def shared_uniform(patch: pytest.MonkeyPatch) -> None:
    """One random number draws a token and decides whether it is accepted."""
    right = Streams.uniforms
    patch.setattr(Streams, "uniforms", lambda self, *key: replace(found := right(self, *key), accept=found.draft))


def wrong_branch_kept(patch: pytest.MonkeyPatch) -> None:
    """The cache keeps a rejected row of a tree instead of the accepted one."""
    right = SlotCache.keep
    patch.setattr(SlotCache, "keep", lambda self, rows, count, bound: right(self, rows * 0, count, bound))


def wrong_greedy(patch: pytest.MonkeyPatch, rank: int = 1, every: int = 5) -> None:
    """A greedy rule that now and then takes the target's second best token."""
    right, rounds = TargetPass.accept, 0

    def accepted(self: TargetPass, logits: Tensor, *rest: Any) -> Any:
        nonlocal rounds
        rounds += 1
        if rounds % every == 0 and self._sampling.greedy:
            best = logits.topk(rank + 1, -1).indices
            logits = logits.scatter(-1, best[..., :1], float(logits.min()))
        return right(self, logits, *rest)

    patch.setattr(TargetPass, "accept", accepted)


# By what a drafter does. Deterministic children, and the oracle's, are drawn by nobody.
DRAWN_TREES = ("sampled-tree", "sequoia", "eagle3-sequoia", "eagle3-sampled-tree")
DRAWN = (*chains(), *DRAWN_TREES)
DIRECT = tuple(name for name in chains() if name != "cascade")  # whose q is what a model or a head says
ALL = (*(name for name in contracted() if name != "plain"), "bandit")


@dataclass(frozen=True)
class Mutation:
    """What is broken, and for which drafters that makes sense."""

    title: str
    apply: Callable[[pytest.MonkeyPatch], None]
    drafters: tuple[str, ...]
    draft_length: str = "fixed"


MUTATIONS = (
    Mutation("argmax drafts verified by softmax", argmax_drafts, DIRECT),
    Mutation("q before the warpers", unwarped_q, DRAWN),
    Mutation("q in bfloat16", bf16_q, DRAWN),
    Mutation("last token from p", last_from_p, DRAWN),
    Mutation("q keeps the rejected token", q_keeps_rejected, DRAWN_TREES),
    Mutation("tree reranked after drawing", reranked, DRAWN_TREES),
    Mutation("improbable token dropped after it was drawn", improbable_dropped, chains()),
    Mutation("length by confidence drops the token", token_dropped, ("medusa", "block"), "confidence"),
    Mutation("noise keyed by position", reused_noise, ALL),
    Mutation("one uniform for draft and verification", shared_uniform, DRAWN),
    Mutation("cache keeps a rejected row", wrong_branch_kept, trees()),
    Mutation("second best token now and then", wrong_greedy, ALL),
)
