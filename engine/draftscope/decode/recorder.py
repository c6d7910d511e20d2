"""Turns a `Step` of tensors into the `Round` of a trace, outside the lane's clock and without effect on decoding.

Each verified child is recorded with the distributions that verified it. They are computed here again from p, q and the
result, with the formula used for verification; `trace/validate` checks that they fit together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from draftscope.base.text import Pieces
from draftscope.decode.session import Step
from draftscope.trace import events
from draftscope.verify.verify import reject

TOP = 32  # tokens of each distribution that are always shown


@dataclass(frozen=True)
class Recorder:
    """Writes the rounds of the run that begins with `start`: row `row` of the session's batch."""

    start: events.RunStart
    pieces: Pieces
    row: int = 0

    @torch.inference_mode()
    def round(self, step: Step, annotations: Sequence[events.Annotation] = ()) -> events.Round | None:
        """The round's event, with the drafter's `annotations`; None if this sequence had already ended."""
        fed = step.fed[self.row]
        if fed is None:
            return None
        view = _View(step, self.row, self.start.rule, self.pieces)
        emitted = [*(view.tokens[node] for node in view.path), step.last[self.row]][: fed.count]
        decisions, last = view.decisions(), view.last()
        real = [node for node in range(len(view.tokens)) if not view.never_accepted[node]]
        return events.Round(
            run=self.start.run,
            lane=self.start.lane,
            round=step.index,
            start=step.start,
            end=step.end,
            width=step.tree.nodes + 1,
            drafted=len(real),
            accepted=min(len(view.path), fed.count),
            depth=max((view.depth[node] for node in real), default=0),
            nodes=view.nodes(decisions),
            decisions=decisions,
            last=last,
            emitted=emitted,
            emitted_raw=[self.pieces.shown(token) for token in emitted],
            text_delta=fed.delta,
            cut=fed.cut,
            timings=_timings(step),
            annotations=list(annotations),
        )


@dataclass(frozen=True)
class _Pair:
    """Target and draft distribution [V] of one verification, and the tokens to show. q is None if there is no draft
    distribution."""

    p: Tensor
    q: Tensor | None
    tokens: Sequence[int]


class _View:
    """One sequence of one step, with the parts a trace needs copied to the host."""

    def __init__(self, step: Step, row: int, rule: str, pieces: Pieces) -> None:
        tree = step.tree
        self.step, self.row, self.rule, self.pieces = step, row, rule, pieces
        self.greedy = step.p is None
        self.block = rule == "block" and tree.drawn == "all" and tree.topology.is_chain and not self.greedy
        self.path = step.paths[row]
        self.tokens: list[int] = tree.tokens[row].tolist()
        self.parents: list[int] = tree.topology.parents[row].tolist()
        self.never_accepted: list[bool] = tree.never_accepted[row].tolist()
        self.depth: list[int] = tree.topology.depth[row, 1:].tolist()
        self.shown_row: list[int] = tree.shown_row[row].tolist()
        self.proposal_row: list[int] = tree.proposal_row[row].tolist()
        self.accept_uniform: list[float] = step.uniforms.accept[row].tolist()
        self.last_uniform: list[float] = step.uniforms.last[row].tolist()
        self.p = step.logits[row].float().softmax(-1) if step.p is None else step.p[row]  # [N + 1, V]
        self.distributions = None if tree.distributions is None else tree.distributions[row]  # [F, V]
        self.end = self.path[-1] + 1 if self.path else 0  # the slot where the path ended
        self.scale: str = "before_argmax" if self.greedy else "probs"

    def children(self, slot: int) -> list[int]:
        return [
            node for node, parent in enumerate(self.parents) if parent == slot - 1 and not self.never_accepted[node]
        ]

    def shown_at(self, slot: int) -> Tensor | None:
        return (
            None if self.distributions is None or self.shown_row[slot] < 0 else self.distributions[self.shown_row[slot]]
        )

    def nodes(self, decisions: list[events.Decision]) -> list[events.Node]:
        verified = {child.node for decision in decisions for child in decision.children}
        slots = torch.tensor([parent + 1 for parent in self.parents], dtype=torch.long, device=self.p.device)
        tokens = torch.tensor(self.tokens, dtype=torch.long, device=self.p.device)
        p = self.p[slots, tokens].tolist()
        rows = torch.tensor([max(self.shown_row[parent + 1], 0) for parent in self.parents], dtype=torch.long)
        q = (
            self.distributions[rows.to(self.p.device), tokens].tolist()
            if self.distributions is not None and self.tokens
            else None
        )
        return [
            events.Node(
                id=node,
                token=token,
                raw=self.pieces.shown(token),
                parent=self.parents[node],
                depth=self.depth[node],
                origin=self.step.tree.origin[self.row][node],
                fate=self._fate(node, verified),
                p=p[node],
                q=q[node] if q is not None and self.shown_row[self.parents[node] + 1] >= 0 else None,
            )
            for node, token in enumerate(self.tokens)
        ]

    def decisions(self) -> list[events.Decision]:
        """One decision for each slot whose children were verified, from the root down."""
        if self.block and not all(self.never_accepted):
            return self._block_decisions()
        visited = [0, *(node + 1 for node in self.path)]
        return [self._decision(slot) for slot in visited if self.children(slot)]

    def last(self) -> events.Last:
        """The target's own token, its slot, and its distribution unless a decision already shows it."""
        slot, token = self.end, self.step.last[self.row]
        verified = bool(self.children(slot))
        kind: events.LastKind = "correction" if verified else "bonus" if self.path else "plain"
        drawn_decision = verified and not self.greedy and self.proposal_row[slot] >= 0
        distributions = None
        if drawn_decision:
            assert self.step.verification.residual is not None
            left = self.step.verification.residual[self.row]
            distributions = self._distributions([_Pair(left / left.sum(), None, [token])])[0]
        elif not verified:
            distributions = self._distributions([_Pair(self.p[slot], None, [token])])[0]
        return events.Last(
            kind=kind,
            slot=slot - 1,
            token=token,
            raw=self.pieces.shown(token),
            uniform=None if self.greedy else self.last_uniform[slot],
            gap=self._gap(slot) if self.greedy else None,
            distributions=distributions,
        )

    def _fate(self, node: int, verified: set[int]) -> events.Fate:
        if self.never_accepted[node]:
            return "never_accepted"
        if node in self.path:
            return "accepted"
        return "rejected" if node in verified else "unvisited"

    def _decision(self, slot: int) -> events.Decision:
        if self.step.verification.lossy is not None:
            return self._lossy_decision(slot)
        drawn = not self.greedy and self.proposal_row[slot] >= 0
        return self._drawn_decision(slot) if drawn else self._chosen_decision(slot)

    def _chosen_decision(self, slot: int) -> events.Decision:
        """Greedy or deterministic children: the child with the target's own token is accepted."""
        children = self.children(slot)
        taken = next((node for node in self.path if node in children), None)
        drawn = self.step.last[self.row] if taken is None else self.tokens[taken]
        pair = _Pair(self.p[slot], self.shown_at(slot), [drawn, *(self.tokens[node] for node in children)])
        verified = children if taken is None else children[: children.index(taken) + 1]
        distributions = self._distributions([pair])[0]
        return events.Decision(
            slot=slot - 1,
            rule="greedy" if self.greedy else "deterministic",
            distributions=[distributions],
            children=[_chosen(node, node == taken, distributions, self.tokens[node]) for node in verified],
            draw=drawn,
            uniform=None if self.greedy else self.last_uniform[slot],
            gap=self._gap(slot) if self.greedy else None,
        )

    def _drawn_decision(self, slot: int) -> events.Decision:
        """Token-wise rejection, or RRSw for siblings: one uniform per child, new distributions after each rejection."""
        children = self.children(slot)
        verified = next((children[: i + 1] for i, node in enumerate(children) if node in self.path), children)
        sibling_rows = self._sibling_rows(slot, verified)[: len(verified)]
        tokens = [self.tokens[node] for node in children]
        distributions = self._distributions([_Pair(p, q, tokens) for p, q in sibling_rows])
        rows = []
        for node, (p, q) in zip(verified, sibling_rows, strict=True):
            p_token, q_token = float(p[self.tokens[node]]), float(q[self.tokens[node]])
            rows.append(
                events.Verified(
                    node=node,
                    p=p_token,
                    q=q_token,
                    threshold=events.ratio_threshold(p_token, q_token),
                    uniform=self.accept_uniform[node],
                    passed=node in self.path,
                )
            )
        rule: events.Rule = "token" if len(children) == 1 else "rrsw"
        return events.Decision(slot=slot - 1, rule=rule, distributions=distributions, children=rows)

    def _lossy_decision(self, slot: int) -> events.Decision:
        """A chain's draft under a lossy rule: its uniform or its token's probability is compared with a threshold."""
        assert self.distributions is not None
        assert self.step.verification.lossy is not None
        (node,) = self.children(slot)
        token = self.tokens[node]
        thresholds, passed = (values[self.row].tolist() for values in self.step.verification.lossy)
        child = events.Verified(
            node=node,
            p=float(self.p[slot, token]),
            q=float(self.distributions[self.proposal_row[slot], token]),
            threshold=thresholds[node],
            uniform=self.accept_uniform[node] if self.rule == "lenient" else None,
            passed=passed[node],
        )
        distributions = self._distributions([_Pair(self.p[slot], self.distributions[self.proposal_row[slot]], [token])])
        rule: events.Rule = "lenient" if self.rule == "lenient" else "typical" if self.rule == "typical" else "top-k"
        return events.Decision(slot=slot - 1, rule=rule, distributions=distributions, children=[child])

    def _sibling_rows(self, slot: int, verified: list[int]) -> list[tuple[Tensor, Tensor]]:
        """The distributions that verified each child, and those after the last child was rejected."""
        assert self.distributions is not None
        p, q = self.p[slot], self.distributions[self.proposal_row[slot]]
        pairs = [(p, q)]
        for node in verified:
            p, q = reject(p, q, torch.tensor(self.tokens[node], device=p.device))
            pairs.append((p, q))
        return pairs

    def _block_decisions(self) -> list[events.Decision]:
        """Block verification: a uniform and threshold for every prefix; the longest prefix that passes is accepted."""
        tree = self.step.tree
        assert self.step.p is not None
        assert self.distributions is not None
        assert self.step.verification.block is not None
        weights, thresholds = (values[self.row].tolist() for values in self.step.verification.block)
        chain = [node for node in range(tree.nodes) if not self.never_accepted[node]]
        distributions = self._distributions(
            [_Pair(self.p[node], self.distributions[node], [self.tokens[node]]) for node in chain]
        )
        return [
            events.Decision(
                slot=node - 1,
                rule="block",
                distributions=[distributions[node]],
                children=[
                    events.Verified(
                        node=node,
                        threshold=thresholds[node],
                        uniform=self.accept_uniform[node],
                        weight=weights[node + 1],
                        passed=self.accept_uniform[node] < thresholds[node],
                        p=float(self.p[node, self.tokens[node]]),
                        q=float(self.distributions[node, self.tokens[node]]),
                    )
                ],
            )
            for node in chain
        ]

    def _gap(self, slot: int) -> float:
        first, second = self.step.logits[self.row, slot].float().topk(2).values.tolist()
        return float(first - second)

    def _distributions(self, pairs: list[_Pair]) -> list[events.Distributions]:
        """All distributions of a decision: the top of p and of q, the given tokens, and the mass of all others."""
        p = torch.stack([pair.p for pair in pairs]).float()
        q = torch.stack([pair.q for pair in pairs if pair.q is not None]).float() if pairs[0].q is not None else None
        top = min(TOP, p.shape[-1])
        shown = p.topk(top).indices.cpu().numpy()
        if q is not None:
            shown = np.concatenate([shown, q.topk(top).indices.cpu().numpy()], 1)
        p_all = p.cpu().numpy().astype(np.float64)
        q_all = None if q is None else q.cpu().numpy().astype(np.float64)
        return [
            self._one_distribution(
                np.union1d(shown[i], np.array(pair.tokens)), p_all[i], None if q_all is None else q_all[i]
            )
            for i, pair in enumerate(pairs)
        ]

    def _one_distribution(self, ids: np.ndarray, p: np.ndarray, q: np.ndarray | None) -> events.Distributions:
        weight = p[ids] if q is None else np.maximum(p[ids], q[ids])
        ids = ids[np.argsort(-weight, kind="stable")]
        common = {"ids": ids.tolist(), "raw": [self.pieces.shown(int(token)) for token in ids], "scale": self.scale}
        if q is None:
            return events.Distributions(**common, p=_rounded(p[ids]), rest_p=_rest(p, ids))
        return events.Distributions(
            **common,
            p=_rounded(p[ids]),
            q=_rounded(q[ids]),
            rest_p=_rest(p, ids),
            rest_q=_rest(q, ids),
            rest_min=_rest(np.minimum(p, q), ids),
            rest_residual=_rest(np.maximum(p - q, 0.0), ids),
        )


def _chosen(node: int, passed: bool, distributions: events.Distributions, token: int) -> events.Verified:
    """A deterministic child: no uniform, only its token's probability in both distributions."""
    i = distributions.ids.index(token)
    return events.Verified(
        node=node, passed=passed, p=distributions.p[i], q=None if distributions.q is None else distributions.q[i]
    )


def _rounded(values: np.ndarray) -> list[float]:
    """Seven significant digits: the precision of fp32, at half the length in a file."""
    scale = 10.0 ** (6 - np.floor(np.log10(np.maximum(values, 1e-30))))
    rounded: list[float] = (np.round(values * scale) / scale).tolist()
    return rounded


def _rest(values: np.ndarray, shown: np.ndarray) -> float:
    """The mass outside `shown`, at least 0 despite rounding."""
    return float(max(0.0, round(float(values.sum() - values[shown].sum()), 9)))


def _timings(step: Step) -> events.Timings:
    """The stages of a round. The last entry of `propose` is its time without the measured draft forwards."""
    forwards = [round(ms, 4) for ms in step.tree.forward_ms]
    other = max(0.0, step.stages["propose"] - sum(step.tree.forward_ms))
    rest = {name: round(step.stages[name], 4) for name in ("verify", "accept", "commit", "host")}
    recorded = step.graphs_recorded or None
    return events.Timings(propose=[*forwards, round(other, 4)], **rest, graphs_recorded=recorded)
