"""Whether a row's logits depend on the rows computed with it, bit for bit: the ground on which greedy lanes may part.

A row of a chain attends to slots one after another, as plain's does. A row of a tree skips its ancestors' siblings, so
attention sums the same terms in another order and may round otherwise: in bfloat16 about one row in fifty of a tree on
the shipped target got other bits, and never a row whose path has no gap. Neither other slots for the rows nor attention
written as two fp32 products made the bits equal, so the difference is measured and said.
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from draftscope.base.costs import RowRounding
from draftscope.base.steps import Steps
from draftscope.models.model import Model
from draftscope.verify.tree import Topology, chain, full

CHAINS = (1, 2, 4, 8, 16, 32)  # drafted tokens
TREE = (2, 2, 2, 1)  # children by level
CONTEXTS = (11, 18, 25, 31, 40, 53, 67, 85)  # tokens before the rows


def forwards_of(trees: bool) -> int:
    """Forwards of one row in `compare_rows`, in which its time goes."""
    chains = 2 * sum(drafted + 1 for drafted in CHAINS)
    return chains + (len(CONTEXTS) * prod(TREE) * (len(TREE) + 1) if trees else 0)


@torch.inference_mode()
def compare_rows(model: Model) -> Steps[None, list[RowRounding]]:
    """Rows of chains and of a tree, against the same token decoded alone after the same prefix. A step is a forward."""
    shapes = [(f"chain of {drafted}", chain(drafted, 1, model.device)) for drafted in CHAINS]
    if model.trees:
        shapes.append((f"tree of {', '.join(map(str, TREE))} children by level", full(TREE, 1, model.device)))
    contexts = [context for context in CONTEXTS if context + max(CHAINS) < model.context] or [1]
    results = []
    for form, shape in shapes:
        results.append((yield from _compared(model, form, shape, contexts[:2] if shape.is_chain else contexts)))
    return results


def _compared(model: Model, form: str, shape: Topology, contexts: list[int]) -> Steps[None, RowRounding]:
    rows, largest, differing = 0, 0.0, 0
    for context in contexts:
        prompt = [(7 * i + 3) % model.vocabulary for i in range(context)]
        tokens = torch.tensor([(5 * i + 2 + context) % model.vocabulary for i in range(shape.nodes + 1)])
        together = _together(model, prompt, shape, tokens.to(model.device))
        singles = yield from _row_by_row(model, prompt, shape, tokens.tolist())
        for row, single in singles.items():
            rows += 1
            differing += not torch.equal(together[row], single)
            largest = max(largest, float((together[row].float() - single.float()).abs().max()))
    return RowRounding(form=form, branches=not shape.is_chain, width=shape.nodes + 1, rows=rows, differing=differing,
                   largest=largest)  # fmt: skip


def _together(model: Model, prompt: list[int], shape: Topology, tokens: Tensor) -> Tensor:
    cache = model.cache(1, len(prompt) + len(tokens))
    model.read(cache, [prompt])
    return model.forward(cache, tokens[None], shape.depth, None if shape.is_chain else shape.ancestors)[0]


def _row_by_row(model: Model, prompt: list[int], shape: Topology, tokens: list[int]) -> Steps[None, dict[int, Tensor]]:
    """The logits [V] of each row, decoded one token at a time down every path from the root."""
    cache = model.cache(1, len(prompt) + len(tokens))
    model.read(cache, [prompt])
    by_row: dict[int, Tensor] = {}
    parents = shape.parents[0].tolist()
    leaves = set(range(len(tokens))) - {parent + 1 for parent in parents}
    for leaf in sorted(leaves):
        if by_row:
            cache.truncate(torch.tensor([len(prompt)], device=model.device), len(prompt))
            cache.table.know_least(len(prompt))
        path: list[int] = shape.ancestors[0, leaf].nonzero()[:, 0].tolist()
        for length, row in enumerate(path, len(prompt) + 1):
            token = torch.tensor([[tokens[row]]], device=model.device)
            logits = model.forward(cache, token, torch.zeros_like(token))[0, 0]
            by_row.setdefault(row, logits.clone())
            cache.keep_first(torch.ones(1, dtype=torch.long, device=model.device), length)
            yield None
    return by_row
