"""From a `Step` of tensors to the `Round` of a trace. Runs outside the lane's clock and touches nothing that decodes.

Each judged child is shown with the laws it actually faced. They are worked out again here from p, q and the verdict, by
the formula that judged; a property test holds every recorded story to the rules of what can happen.
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

TOP = 32  # tokens of each law that are always shown


@dataclass(frozen=True)
class Recorder:
    """Writes the rounds of one sequence (row `row` of the session's batch) of one lane."""

    run: str
    lane: str
    sequence: int
    row: int
    rule: str  # the rule for drawn chains
    pieces: Pieces

    @torch.inference_mode()
    def round(self, step: Step, annotations: Sequence[events.Annotation] = ()) -> events.Round | None:
        """The round's event; None where this sequence had already ended. `annotations` are the drafter's."""
        fed = step.fed[self.row]
        if fed is None:
            return None
        view = _View(step, self.row, self.rule, self.pieces)
        emitted = [*(view.tokens[node] for node in view.path), step.last[self.row]][: fed.count]
        contests, last = view.contests(), view.last()
        real = [node for node in range(len(view.tokens)) if not view.scout[node]]
        return events.Round(
            run=self.run,
            lane=self.lane,
            sequence=self.sequence,
            round=step.index,
            start=step.start,
            end=step.end,
            width=step.tree.nodes + 1,
            drafted=len(real),
            accepted=min(len(view.path), fed.count),
            depth=max((view.depth[node] for node in real), default=0),
            nodes=view.nodes(contests),
            contests=contests,
            last=last,
            emitted=emitted,
            emitted_raw=[self.pieces.shown(token) for token in emitted],
            text_delta=fed.delta,
            cut=fed.cut,
            timings=_timings(step),
            annotations=list(annotations),
        )


@dataclass(frozen=True)
class _Faced:
    """A pair of laws [V] that somebody faced, and the tokens to show. q is None where there is no draft law."""

    p: Tensor
    q: Tensor | None
    tokens: Sequence[int]


class _View:
    """One sequence of one step, read to the host as far as a trace needs it."""

    def __init__(self, step: Step, row: int, rule: str, pieces: Pieces) -> None:
        tree = step.tree
        self.step, self.row, self.rule, self.pieces = step, row, rule, pieces
        self.greedy = step.p is None
        self.block = rule == "block" and tree.drawn == "all" and tree.topology.is_chain and not self.greedy
        self.path = step.paths[row]
        self.tokens: list[int] = tree.tokens[row].tolist()
        self.parents: list[int] = tree.topology.parents[row].tolist()
        self.scout: list[bool] = tree.scout[row].tolist()
        self.depth: list[int] = tree.topology.depth[row, 1:].tolist()
        self.belief: list[int] = tree.belief[row].tolist()
        self.family: list[int] = tree.family[row].tolist()
        self.accept_coin: list[float] = step.coins.accept[row].tolist()
        self.last_coin: list[float] = step.coins.last[row].tolist()
        self.p = step.logits[row].float().softmax(-1) if step.p is None else step.p[row]  # [N + 1, V]
        self.laws = None if tree.laws is None else tree.laws[row]  # [F, V]
        self.end = self.path[-1] + 1 if self.path else 0  # the slot where the path ended
        self.scale: str = "before_argmax" if self.greedy else "law"

    def children(self, slot: int) -> list[int]:
        return [node for node, parent in enumerate(self.parents) if parent == slot - 1 and not self.scout[node]]

    def belief_at(self, slot: int) -> Tensor | None:
        return None if self.laws is None or self.belief[slot] < 0 else self.laws[self.belief[slot]]

    def nodes(self, contests: list[events.Contest]) -> list[events.Node]:
        judged = {child.node for contest in contests for child in contest.children}
        slots = torch.tensor([parent + 1 for parent in self.parents], dtype=torch.long, device=self.p.device)
        tokens = torch.tensor(self.tokens, dtype=torch.long, device=self.p.device)
        p = self.p[slots, tokens].tolist()
        rows = torch.tensor([max(self.belief[parent + 1], 0) for parent in self.parents], dtype=torch.long)
        q = self.laws[rows.to(self.p.device), tokens].tolist() if self.laws is not None and self.tokens else None
        return [
            events.Node(
                id=node,
                token=token,
                raw=self.pieces.shown(token),
                parent=self.parents[node],
                depth=self.depth[node],
                origin=self.step.tree.origin[self.row][node],
                fate=self._fate(node, judged),
                p=p[node],
                q=q[node] if q is not None and self.belief[self.parents[node] + 1] >= 0 else None,
            )
            for node, token in enumerate(self.tokens)
        ]

    def contests(self) -> list[events.Contest]:
        """The contests of this round, from the root down, for every slot whose children were judged."""
        if self.block and not all(self.scout):
            return self._block_contests()
        visited = [0, *(node + 1 for node in self.path)]
        return [self._contest(slot) for slot in visited if self.children(slot)]

    def last(self) -> events.Last:
        """The target's own token: where it hangs, and the law it came from unless a contest already shows that."""
        slot, token = self.end, self.step.last[self.row]
        judged = bool(self.children(slot))
        kind: events.LastKind = "correction" if judged else "bonus" if self.path else "plain"
        drawn_contest = judged and not self.greedy and self.family[slot] >= 0
        laws = None
        if drawn_contest:
            assert self.step.verdict.left is not None
            left = self.step.verdict.left[self.row]
            laws = self._laws([_Faced(left / left.sum(), None, [token])])[0]
        elif not judged:
            laws = self._laws([_Faced(self.p[slot], None, [token])])[0]
        return events.Last(
            kind=kind,
            slot=slot - 1,
            token=token,
            raw=self.pieces.shown(token),
            coin=None if self.greedy else self.last_coin[slot],
            gap=self._gap(slot) if self.greedy else None,
            laws=laws,
        )

    def _fate(self, node: int, judged: set[int]) -> events.Fate:
        if self.scout[node]:
            return "scout"
        if node in self.path:
            return "accepted"
        return "rejected" if node in judged else "unvisited"

    def _contest(self, slot: int) -> events.Contest:
        if self.step.verdict.lossy is not None:
            return self._lossy_contest(slot)
        drawn = not self.greedy and self.family[slot] >= 0
        return self._drawn_contest(slot) if drawn else self._chosen_contest(slot)

    def _chosen_contest(self, slot: int) -> events.Contest:
        """Greedy or deterministic: the target's own token accepts the child that carries it."""
        children = self.children(slot)
        taken = next((node for node in self.path if node in children), None)
        own = self.step.last[self.row] if taken is None else self.tokens[taken]
        faced = _Faced(self.p[slot], self.belief_at(slot), [own, *(self.tokens[node] for node in children)])
        judged = children if taken is None else children[: children.index(taken) + 1]
        laws = self._laws([faced])[0]
        return events.Contest(
            slot=slot - 1,
            rule="greedy" if self.greedy else "deterministic",
            laws=[laws],
            children=[_chosen(node, node == taken, laws, self.tokens[node]) for node in judged],
            draw=own,
            coin=None if self.greedy else self.last_coin[slot],
            gap=self._gap(slot) if self.greedy else None,
        )

    def _drawn_contest(self, slot: int) -> events.Contest:
        """Token-wise rejection, or RRSw where siblings stand: one coin a child, laws renewed after each rejection."""
        children = self.children(slot)
        judged = next((children[: i + 1] for i, node in enumerate(children) if node in self.path), children)
        faced = self._faced(slot, judged)[: len(judged)]
        tokens = [self.tokens[node] for node in children]
        laws = self._laws([_Faced(p, q, tokens) for p, q in faced])
        rows = []
        for node, (p, q) in zip(judged, faced, strict=True):
            p_token, q_token = float(p[self.tokens[node]]), float(q[self.tokens[node]])
            rows.append(
                events.Judged(
                    node=node,
                    p=p_token,
                    q=q_token,
                    threshold=min(1.0, p_token / q_token),
                    coin=self.accept_coin[node],
                    passed=node in self.path,
                )
            )
        rule: events.Rule = "token" if len(children) == 1 else "rrsw"
        return events.Contest(slot=slot - 1, rule=rule, laws=laws, children=rows)

    def _lossy_contest(self, slot: int) -> events.Contest:
        """A draft of a chain under a lossy rule: its coin against a threshold, or the probability of its token."""
        assert self.laws is not None
        assert self.step.verdict.lossy is not None
        (node,) = self.children(slot)
        token = self.tokens[node]
        thresholds, passed = (values[self.row].tolist() for values in self.step.verdict.lossy)
        child = events.Judged(
            node=node,
            p=float(self.p[slot, token]),
            q=float(self.laws[self.family[slot], token]),
            threshold=thresholds[node],
            coin=self.accept_coin[node] if self.rule == "lenient" else None,
            passed=passed[node],
        )
        laws = self._laws([_Faced(self.p[slot], self.laws[self.family[slot]], [token])])
        rule: events.Rule = "lenient" if self.rule == "lenient" else "typical" if self.rule == "typical" else "top-k"
        return events.Contest(slot=slot - 1, rule=rule, laws=laws, children=[child])

    def _faced(self, slot: int, judged: list[int]) -> list[tuple[Tensor, Tensor]]:
        """The laws that each judged child faced, and those left after the last of them was rejected."""
        assert self.laws is not None
        p, q = self.p[slot], self.laws[self.family[slot]]
        pairs = [(p, q)]
        for node in judged:
            p, q = reject(p, q, torch.tensor(self.tokens[node], device=p.device))
            pairs.append((p, q))
        return pairs

    def _block_contests(self) -> list[events.Contest]:
        """Block verification tosses a coin for every prefix; the longest passing prefix stands."""
        tree = self.step.tree
        assert self.step.p is not None
        assert self.laws is not None
        assert self.step.verdict.block is not None
        weights, thresholds = (values[self.row].tolist() for values in self.step.verdict.block)
        chain = [node for node in range(tree.nodes) if not self.scout[node]]
        laws = self._laws([_Faced(self.p[node], self.laws[node], [self.tokens[node]]) for node in chain])
        return [
            events.Contest(
                slot=node - 1,
                rule="block",
                laws=[laws[node]],
                children=[
                    events.Judged(
                        node=node,
                        threshold=thresholds[node],
                        coin=self.accept_coin[node],
                        weight=weights[node + 1],
                        passed=self.accept_coin[node] < thresholds[node],
                        p=float(self.p[node, self.tokens[node]]),
                        q=float(self.laws[node, self.tokens[node]]),
                    )
                ],
            )
            for node in chain
        ]

    def _gap(self, slot: int) -> float:
        first, second = self.step.logits[self.row, slot].float().topk(2).values.tolist()
        return float(first - second)

    def _laws(self, faced: list[_Faced]) -> list[events.Laws]:
        """All laws of a contest in one go: the top of p and of q, the tokens asked for, and the masses of the rest."""
        p = torch.stack([pair.p for pair in faced]).float()
        q = torch.stack([pair.q for pair in faced if pair.q is not None]).float() if faced[0].q is not None else None
        top = min(TOP, p.shape[-1])
        shown = p.topk(top).indices.cpu().numpy()
        if q is not None:
            shown = np.concatenate([shown, q.topk(top).indices.cpu().numpy()], 1)
        p_all = p.cpu().numpy().astype(np.float64)
        q_all = None if q is None else q.cpu().numpy().astype(np.float64)
        return [
            self._one_law(np.union1d(shown[i], np.array(pair.tokens)), p_all[i], None if q_all is None else q_all[i])
            for i, pair in enumerate(faced)
        ]

    def _one_law(self, ids: np.ndarray, p: np.ndarray, q: np.ndarray | None) -> events.Laws:
        weight = p[ids] if q is None else np.maximum(p[ids], q[ids])
        ids = ids[np.argsort(-weight, kind="stable")]
        common = {"ids": ids.tolist(), "raw": [self.pieces.shown(int(token)) for token in ids], "scale": self.scale}
        if q is None:
            return events.Laws(**common, p=_rounded(p[ids]), rest_p=_rest(p, ids))
        return events.Laws(
            **common,
            p=_rounded(p[ids]),
            q=_rounded(q[ids]),
            rest_p=_rest(p, ids),
            rest_q=_rest(q, ids),
            rest_min=_rest(np.minimum(p, q), ids),
            rest_residual=_rest(np.maximum(p - q, 0.0), ids),
        )


def _chosen(node: int, passed: bool, laws: events.Laws, token: int) -> events.Judged:
    """A deterministic child: no coin of its own, only what both laws say of its token."""
    i = laws.ids.index(token)
    return events.Judged(node=node, passed=passed, p=laws.p[i], q=None if laws.q is None else laws.q[i])


def _rounded(values: np.ndarray) -> list[float]:
    """Seven significant digits: all that fp32 holds, and half the length in a file."""
    scale = 10.0 ** (6 - np.floor(np.log10(np.maximum(values, 1e-30))))
    rounded: list[float] = (np.round(values * scale) / scale).tolist()
    return rounded


def _rest(values: np.ndarray, shown: np.ndarray) -> float:
    """The mass outside `shown`; never below 0 by rounding."""
    return float(max(0.0, round(float(values.sum() - values[shown].sum()), 9)))


def _timings(step: Step) -> events.Timings:
    """The stages of a round; what proposing took beyond the measured draft forwards stands last in `propose`."""
    forwards = [round(ms, 4) for ms in step.tree.forward_ms]
    other = max(0.0, step.stages["propose"] - sum(step.tree.forward_ms))
    rest = {name: round(step.stages[name], 4) for name in ("verify", "judge", "commit", "host")}
    return events.Timings(propose=[*forwards, round(other, 4)], **rest)
