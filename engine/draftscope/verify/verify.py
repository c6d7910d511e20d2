"""Verification of draft trees: pure functions on tensors that never wait for the device.

Every rule except `verify_lossy` keeps the distribution of the output exactly the target's. `rules.py` states the rules
readably over rational numbers, where tests prove them exact; tests hold these tensor versions equal to it.

A slot with drawn children is verified by recursive rejection sampling without replacement (RRSw, 2402.12374); with a
single child this is token-wise rejection (2211.17192, 2302.01318). At a slot with deterministic children the target
draws a token, and a child with that token is accepted. `verify_block` verifies a drawn chain as a whole (2403.10444).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from draftscope.verify.drawing import array, draw, in_loops, loops
from draftscope.verify.rules import TYPICAL_DELTA, TYPICAL_EPS
from draftscope.verify.tree import DraftTree
from draftscope.verify.uniforms import Uniforms


@dataclass(frozen=True)
class Rule:
    """How a drawn chain is verified above temperature 0. All other trees are verified by `verify_tree`."""

    name: str = "block"  # block, token, or one of `base.settings.LOSSY`
    lenience: float = 0.5  # lenient: accepts with probability p / (lenience q)
    agreement: int = 3  # top-k: accepts the `agreement` most likely tokens of p


@dataclass(frozen=True)
class Verification:
    """The result of verification: the accepted path and the target's token after it."""

    path: Tensor  # [B, D] accepted nodes from the root down, then -1
    accepted: Tensor  # [B] number of accepted nodes
    slot: Tensor  # [B] where the path ended; `last` follows it
    last: Tensor  # [B] the target's token: correction, bonus or plain token
    residual: Tensor | None = None  # [B, V] what `last` was drawn from, not normalised; None if no child was drawn
    block: tuple[Tensor, Tensor] | None = None  # weights [B, G + 1] and thresholds [B, G], see `block_thresholds`
    lossy: tuple[Tensor, Tensor] | None = None  # thresholds and whether they passed, [B, G], see `lossy_thresholds`

    @property
    def parts(self) -> tuple[Tensor | None, ...]:
        """All tensors as one flat tuple, the inverse of `of_parts`; None for a missing one."""
        pairs = (*(self.block or (None, None)), *(self.lossy or (None, None)))
        return self.path, self.accepted, self.slot, self.last, self.residual, *pairs

    @classmethod
    def of_parts(cls, parts: tuple[Any, ...]) -> Verification:
        path, accepted, slot, last, residual, weights, limits, thresholds, passed = parts
        block = None if weights is None else (weights, limits)
        lossy = None if thresholds is None else (thresholds, passed)
        return cls(path, accepted, slot, last, residual, block, lossy)


def verify_greedy(argmax: Tensor, tree: DraftTree) -> Verification:
    """argmax [B, N + 1]: the target's token after every slot. Descends while a child has that token."""
    if tree.nodes == 0:  # plain decoding, which this makes faster
        last = argmax[:, 0]
        root = torch.zeros_like(last)
        return Verification(argmax[:, :0], root, root, last)
    path, accepted, slot = _walk(tree, _matches(tree, argmax))
    return Verification(path, accepted, slot, _at(argmax, slot))


def verify_tree(p: Tensor, tree: DraftTree, uniforms: Uniforms) -> Verification:
    """p [B, N + 1, V]: the target distribution after every slot. RRSw for drawn children, the target's own draw for
    deterministic ones."""
    if tree.drawn == "none" or not tree.nodes:
        return verify_greedy(draw(p, uniforms.last), tree)
    accept = _rejection(p, tree, uniforms.accept)
    if tree.drawn == "some":
        target_tokens = draw(p, uniforms.last)
        accept = torch.where(_per_node(tree, tree.proposal_row) >= 0, accept, _matches(tree, target_tokens))
    path, accepted, slot = _walk(tree, accept)
    left = _residual_at(p, tree, slot)
    return Verification(path, accepted, slot, draw(left, _at(uniforms.last, slot)), left)


def verify_block(p: Tensor, tree: DraftTree, uniforms: Uniforms) -> Verification:
    """Block verification of a drawn chain of G nodes: p [B, G + 1, V], node i drawn from `distributions[:, i]`."""
    if in_loops(p):
        return _verify_block_in_loops(p, tree, uniforms)
    weights, thresholds = block_thresholds(p, tree)
    passed = uniforms.accept < thresholds  # [B, G]; strict, so that a threshold of 0 never passes
    accepted = (passed * tree.topology.depth[:, 1:]).amax(-1)  # [B]: the last position that passes
    left = _block_residual(p, tree, weights, accepted)
    last = draw(left, _at(uniforms.last, accepted))
    return Verification(_chain_path(tree, accepted), accepted, accepted, last, left, (weights, thresholds))


def _verify_block_in_loops(p: Tensor, tree: DraftTree, uniforms: Uniforms) -> Verification:
    """The same in one pass over p and q."""
    assert tree.distributions is not None
    given = p, tree.distributions, tree.tokens, tree.never_accepted, uniforms.accept, uniforms.last
    weights, thresholds = (torch.empty(part.shape, dtype=torch.float64) for part in (uniforms.last, uniforms.accept))
    accepted, last = torch.empty((2, len(p)), dtype=torch.long)
    left = torch.empty(p[:, 0].shape)
    loops().verify_block(*map(array, (*given, weights, thresholds, accepted, last, left)))
    return Verification(_chain_path(tree, accepted), accepted, accepted, last, left, (weights, thresholds))


def block_thresholds(p: Tensor, tree: DraftTree) -> tuple[Tensor, Tensor]:
    """Weights p_0 .. p_G [B, G + 1] and thresholds h_1 .. h_G [B, G] of block verification, in fp64.

    p_i = min(1, p_{i-1} p(x_i) / q(x_i)), h_i = S_i / (S_i + 1 - p_i) with S_i = sum_x (p_i p(x) - q(x))+, h_G = p_G.
    Never-accepted nodes (padding of a shorter chain) end the chain: their weight is 0 and they never pass.
    """
    assert tree.distributions is not None
    q, never_accepted = tree.distributions, tree.never_accepted
    ratio = _token_mass(p[:, :-1], tree.tokens).double() / _token_mass(q, tree.tokens)
    ratio = ratio.masked_fill_(never_accepted, 0.0)
    weights = [torch.ones_like(ratio[:, 0])]
    for i in range(tree.nodes):
        weights.append((weights[-1] * ratio[:, i]).clamp_(max=1.0))
    weight = torch.stack(weights, 1)
    inner = weight[:, 1:-1]  # after the last node there is no q
    over = (inner.to(p.dtype)[:, :, None] * p[:, 1:-1]).sub_(q[:, 1 : tree.nodes]).clamp_(min=0.0).sum(-1).double()
    threshold = (over / (over + 1.0 - inner)).nan_to_num_(1.0)  # p_i = 1 and S_i = 0: q = p, so all later drafts pass
    threshold = torch.where(never_accepted[:, 1:], inner, threshold)
    return weight, torch.cat([threshold, weight[:, -1:]], 1)


def _block_residual(p: Tensor, tree: DraftTree, weights: Tensor, accepted: Tensor) -> Tensor:
    """The distribution [B, V] of the token after `accepted` nodes: (p_tau p - q)+, or p if the whole chain was
    accepted. Not normalised."""
    assert tree.distributions is not None
    ahead = accepted.clamp(max=tree.nodes - 1)
    q = _rows(tree.distributions, ahead)
    target = _rows(p, accepted)
    ended = (accepted == tree.nodes) | _at(tree.never_accepted, ahead)
    left = (_at(weights, accepted).to(p.dtype)[:, None] * target).sub_(q).clamp_(min=0.0)
    return torch.where((ended | (left.sum(-1) <= 0))[:, None], target, left)


def verify_lossy(p: Tensor, tree: DraftTree, uniforms: Uniforms, rule: Rule) -> Verification:
    """Verifies a drawn chain by a lossy rule of `rules.py`: the output does not follow p [B, G + 1, V].

    The first draft that fails ends the chain. The lenient rule then draws from the residual, the others from p.
    """
    assert tree.distributions is not None
    thresholds, passed = lossy_thresholds(p, tree, uniforms.accept, rule)
    accepted = (passed & ~tree.never_accepted).long().cumprod(-1).sum(-1)  # [B]
    left = _residual_at(p, tree, accepted) if rule.name == "lenient" else _rows(p, accepted)
    last = draw(left, _at(uniforms.last, accepted))
    return Verification(_chain_path(tree, accepted), accepted, accepted, last, left, lossy=(thresholds, passed))


def lossy_thresholds(p: Tensor, tree: DraftTree, uniforms: Tensor, rule: Rule) -> tuple[Tensor, Tensor]:
    """The threshold of each draft and whether it passes, [B, G] each.

    The lenient rule compares the draft's uniform with the threshold, the others compare p(token).
    """
    assert tree.distributions is not None
    target = p[:, :-1]
    mass = _token_mass(target, tree.tokens)
    if rule.name == "typical":
        entropy = torch.special.entr(target).sum(-1)
        threshold = (TYPICAL_DELTA * (-entropy).exp()).clamp(max=TYPICAL_EPS)
        return threshold, mass > threshold
    if rule.name == "top-k":
        threshold = target.topk(min(rule.agreement, p.shape[-1]), -1).values[..., -1]
        return threshold, (mass >= threshold) & (mass > 0)
    threshold = (mass / (rule.lenience * _token_mass(tree.distributions, tree.tokens))).clamp(max=1.0)
    return threshold, uniforms < threshold


def reject(p: Tensor, q: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
    """P and Q [..., V] after `token` [...] was rejected: norm((P - Q)+), and Q without the token, renormalised.

    If (P - Q)+ has no mass, the rejection had probability 0 and comes from rounding: P is returned unchanged.
    """
    left = (p - q).clamp(min=0.0)
    mass = left.sum(-1, keepdim=True)
    others = q.scatter(-1, token.unsqueeze(-1), 0.0)
    rest = others.sum(-1, keepdim=True)
    return torch.where(mass > 0, left / mass.clamp(min=1e-38), p), others / rest.clamp(min=1e-38)


def _rejection(p: Tensor, tree: DraftTree, uniforms: Tensor) -> Tensor:
    """[B, N] bool: would the node be accepted if all its earlier siblings were rejected? One sibling rank at a time."""
    assert tree.distributions is not None
    shape = tree.topology
    target, draft = p, tree.distributions
    accept = _padded(torch.zeros_like(tree.never_accepted))  # [B, N + 1]: index -1 reads and writes the padding
    never_accepted, tokens, uniforms = _padded(tree.never_accepted, fill=True), _padded(tree.tokens), _padded(uniforms)
    verified, token = never_accepted, tokens  # of the previous rank
    for rank, (slots, among) in enumerate(shape.ranks):
        target = target.index_select(1, among)  # [B, S, V]: only the slots that have a child of this rank
        if rank:
            draft, before = draft.index_select(1, among), verified.index_select(1, among)[:, :, None]
            p_next, q_next = reject(target, draft, token.index_select(1, among))
            target, draft = torch.where(before, p_next, target), torch.where(before, q_next, draft)
        else:
            draft = _rows(draft, tree.proposal_row.index_select(1, among).clamp(min=0))
        child = shape.children[:, :, rank].index_select(1, slots) % (shape.nodes + 1)  # [B, S]
        verified = ~never_accepted.gather(1, child)
        token = tokens.gather(1, child)
        wins = verified & (uniforms.gather(1, child) * _token_mass(draft, token) < _token_mass(target, token))
        accept.scatter_(1, torch.where(verified, child, shape.nodes), wins)
    return accept[:, :-1]


def _residual_at(p: Tensor, tree: DraftTree, slot: Tensor) -> Tensor:
    """The distribution [B, V] of the last token after `slot` [B]: the residual once all its drawn children were
    rejected, or p if its children are deterministic or it has none."""
    assert tree.distributions is not None
    target = _rows(p, slot)
    proposal_row = _at(tree.proposal_row, slot)
    draft = _rows(tree.distributions, proposal_row.clamp(min=0))
    never_accepted, tokens = _padded(tree.never_accepted, fill=True), _padded(tree.tokens)
    for rank in range(tree.topology.width):
        child = _rows(tree.topology.children, slot)[:, rank] % (tree.nodes + 1)
        verified = ~_at(never_accepted, child) & (proposal_row >= 0)
        p_next, q_next = reject(target, draft, _at(tokens, child))
        target = torch.where(verified[:, None], p_next, target)
        draft = torch.where(verified[:, None], q_next, draft)
    return target


def _matches(tree: DraftTree, target_tokens: Tensor) -> Tensor:
    """[B, N] bool: is the node's token the target's token after its parent? target_tokens [B, N + 1], one a slot."""
    return (tree.tokens == _per_node(tree, target_tokens)) & ~tree.never_accepted


def _walk(tree: DraftTree, accept: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Descends from the root into the first accepted child until there is none: path [B, D], length [B], slot [B]."""
    if tree.topology.is_chain:
        length = accept.cumprod(-1).sum(-1)
        return _chain_path(tree, length), length, length
    children = tree.topology.children
    slot = torch.zeros(children.shape[0], dtype=torch.long, device=accept.device)
    accept = _padded(accept)
    path = [slot[:, None][:, :0]]
    for _ in range(tree.topology.height):
        below = _rows(children, slot)  # [B, K]
        wins = accept.gather(1, below % (tree.nodes + 1))
        first = below.gather(1, wins.int().argmax(-1, keepdim=True))  # [B, 1], the first accepted sibling
        node = torch.where(wins.any(-1, keepdim=True), first, -1)
        path.append(node)
        slot = torch.where(node >= 0, node + 1, slot[:, None])[:, 0]  # a walk that has ended stays at its slot
    steps = torch.cat(path, 1)
    return steps, (steps >= 0).sum(-1), slot


def _chain_path(tree: DraftTree, accepted: Tensor) -> Tensor:
    """[B, N]: the first `accepted` [B] nodes of a chain, then -1."""
    return torch.where(tree.topology.depth[:, 1:] <= accepted[:, None], tree.topology.slots, -1)


def _padded(per_node: Tensor, fill: bool = False) -> Tensor:
    """[B, N] -> [B, N + 1]; the last column means 'no node'."""
    return torch.nn.functional.pad(per_node, (0, 1), value=float(fill))


def _per_node(tree: DraftTree, per_slot: Tensor) -> Tensor:
    """[B, N + 1] per slot -> [B, N] per node: the value at each node's parent."""
    return per_slot.gather(1, tree.topology.slots)


def _at(values: Tensor, index: Tensor) -> Tensor:
    """values [B, S], index [B] -> [B]."""
    return values.gather(1, index[:, None])[:, 0]


def _rows(values: Tensor, index: Tensor) -> Tensor:
    """values [B, S, X], index [B] or [B, R] -> [B, X] or [B, R, X]."""
    batch = torch.arange(values.shape[0], device=values.device)
    return values[batch if index.dim() == 1 else batch[:, None], index]


def _token_mass(distribution: Tensor, token: Tensor) -> Tensor:
    """distribution [B, S, V], token [B, S] -> [B, S]."""
    return distribution.gather(-1, token.unsqueeze(-1)).squeeze(-1)
