"""Could this have happened? Refuses a history whose events contradict each other. Imports no torch.

A trace is a file that anybody can edit, and everything on screen and in a table is folded from it. So a reader may rely
on what is checked here: nodes form a tree, the accepted ones one path, every result follows from its uniform and its
threshold, and distributions are distributions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import isclose

from draftscope.base.errors import quoted
from draftscope.trace.events import (
    AnyEvent,
    Burst,
    Decision,
    Distributions,
    DraftProbs,
    Node,
    Prefill,
    Round,
    RunEnd,
    RunStart,
    TargetProbs,
    Verified,
    ratio_threshold,
)
from draftscope.trace.raw import not_a_byte

MASS = 1e-3  # by how much probabilities may miss 1: they were rounded when they were written
CLOSE = 2e-7  # a uniform this near to its threshold: rounding decides the result
RENEWED = 1e-4  # by how much a probability may miss the one worked out from the distributions before
LEAST = 1e-4  # mass: what is left of less is mostly rounding
CLOCK_MS = 0.01
MAX_ASIDE = 10_000  # events of a run beside its rounds; most are of a long prompt, one for every piece of it
MAX_LANES = 256  # of a run: lanes that are raced, and their forks
MAX_SEQUENCES = 4096  # of a lane
BLOCK = "block"
CHOSEN = ("greedy", "deterministic")  # the target's own token decides
COMPARED = ("typical", "top-k")  # p itself is compared with the threshold
NEVER = "never_accepted"


class ImpossibleError(ValueError):
    """An impossible event: what it is and what contradicts what, without a full stop."""


class Validator:
    """Takes the events of a trace one by one. Events may be missing at the end of a trace, nowhere else."""

    def __init__(self, mass: float = MASS) -> None:
        self._mass = mass
        self._runs: dict[str, dict[str, dict[int, _Lane]]] = {}  # started: run -> lane -> sequences
        self._aside: Counter[str] = Counter()  # events of each run beside its rounds

    def add(self, event: AnyEvent) -> None:
        """Raises `ImpossibleError` if the event contradicts itself or the events before it."""
        if strange := not_a_byte(event):
            raise ImpossibleError(f"the bytes of a token hold '{strange}', which is no byte")
        if not isinstance(event, Round | Burst):
            self._aside[event.run] += 1
            if self._aside[event.run] > MAX_ASIDE:
                raise ImpossibleError(f"a run has more than {MAX_ASIDE:,} events beside its rounds")
        lanes = self._runs.setdefault(event.run, {})
        if isinstance(event, RunStart):
            lanes[event.lane] = {}
            if len(lanes) > MAX_LANES:
                raise ImpossibleError(f"a run has more than {MAX_LANES} lanes")
            return
        sequences = lanes.get(event.lane)
        if sequences is None:
            raise ImpossibleError(f"a {event.kind} of lane '{quoted(event.lane)}' comes before the lane's start")
        lane = sequences.setdefault(event.sequence, _Lane())
        try:
            if len(sequences) > MAX_SEQUENCES:
                raise ImpossibleError(f"more than {MAX_SEQUENCES:,} texts are decoded at once")
            if isinstance(event, Prefill):
                _refuse_backwards(event.start, event.end, 0.0)
            elif isinstance(event, Round):
                check_round(event, self._mass)
                lane.add(event)
            elif isinstance(event, Burst):
                check_burst(event)
                lane.add(event)
            elif isinstance(event, TargetProbs | DraftProbs):
                lane.forced(event)
            elif isinstance(event, RunEnd):
                lane.end(event)
        except ImpossibleError as error:
            where = f"round {event.round} of lane" if isinstance(event, Round | Burst) else "lane"
            raise ImpossibleError(f"in {where} '{quoted(event.lane)}', {error}") from None


def validate(events: Iterable[AnyEvent], mass: float = MASS) -> None:
    """Raises `ImpossibleError` for the first event that contradicts itself or an earlier one."""
    validator = Validator(mass)
    for event in events:
        validator.add(event)


# A lane.


class _Lane:
    """One sequence of one lane so far."""

    def __init__(self) -> None:
        self.rounds = 0
        self.clock = 0.0  # ms
        self.tokens: list[int] = []
        self.text: list[str] = []
        self.cut = False

    def add(self, event: Round | Burst) -> None:
        if self.cut:
            raise ImpossibleError("the text had already ended")
        if event.round != self.rounds:
            raise ImpossibleError(f"round {self.rounds} was to come next")
        _refuse_backwards(event.start, event.end, self.clock)
        self.rounds, self.clock = self.rounds + 1, event.end
        self.cut = isinstance(event, Round) and event.cut is not None
        self.tokens += event.emitted
        self.text.append(event.text_delta)

    def forced(self, event: TargetProbs | DraftProbs) -> None:
        """A probability for each token that the lane wrote."""
        values = event.p if isinstance(event, TargetProbs) else event.q
        if len(values) != len(self.tokens) or len(event.best) != len(self.tokens):
            raise ImpossibleError(f"{len(values)} probabilities are given for {len(self.tokens)} tokens")
        if not all(0 <= value <= 1 + MASS for value in values):
            raise ImpossibleError("a probability is not between 0 and 1")

    def end(self, event: RunEnd) -> None:
        """A run whose rounds were not recorded has its text and tokens in its end alone."""
        if not self.rounds:
            return
        if event.target_forwards != self.rounds:
            raise ImpossibleError(f"the run ends after {event.target_forwards} rounds, and {self.rounds} were recorded")
        if event.token_ids != self.tokens:
            raise ImpossibleError(f"the run ends with {len(event.token_ids)} tokens, and not those its rounds emitted")
        if event.text != "".join(self.text):
            raise ImpossibleError("the text of the whole run is not what its rounds added")


def _refuse_backwards(start: float, end: float, clock: float) -> None:
    if not clock <= start <= end:
        raise ImpossibleError(f"the clock runs backwards: {clock:g} ms, then {start:g} to {end:g} ms")


def check_burst(event: Burst) -> None:
    """Raises `ImpossibleError` if the parts of a burst contradict each other."""
    _refuse_backwards(event.start, event.end, 0.0)
    if not event.emitted or len(event.emitted_raw) != len(event.emitted):
        raise ImpossibleError(f"{len(event.emitted)} tokens arrived with {len(event.emitted_raw)} pieces of text")


# A round.


def check_round(event: Round, mass: float = MASS) -> None:
    """Raises `ImpossibleError` if the parts of a round contradict each other."""
    _refuse_backwards(event.start, event.end, 0.0)
    _check_tree(event.nodes)
    path = _path(event.nodes)
    _check_counts(event, path)
    _check_emitted(event, path)
    _check_last(event, path, mass)
    _check_stages(event)
    siblings = _siblings(event.nodes)
    for decision in event.decisions:
        _check_decision(decision, event.nodes, siblings, mass)
        if decision.rule in CHOSEN and decision.slot == event.last.slot and decision.draw != event.last.token:
            raise ImpossibleError(f"token {decision.draw} was drawn at slot {decision.slot}, and another was emitted")
    _check_fates(event)


def _check_tree(nodes: Sequence[Node]) -> None:
    """Ids count up from 0, parents stand before their children, a child is one level deeper than its parent."""
    for place, node in enumerate(nodes):
        if node.id != place:
            raise ImpossibleError(f"node {node.id} stands at place {place}")
        if not -1 <= node.parent < place:
            raise ImpossibleError(f"node {place} has parent {node.parent}, which does not come before it")
        if node.depth != 1 + (nodes[node.parent].depth if node.parent >= 0 else 0):
            raise ImpossibleError(f"node {place} has depth {node.depth}, and its parent is not one level above")


def _path(nodes: Sequence[Node]) -> list[Node]:
    """The accepted nodes, from the root down."""
    path = [node for node in nodes if node.fate == "accepted"]
    for above, node in pairwise([None, *path]):
        assert node is not None
        if node.parent != (above.id if above is not None else -1):
            raise ImpossibleError(f"node {node.id} is accepted and does not continue the accepted path")
    return path


def _check_counts(event: Round, path: Sequence[Node]) -> None:
    real = [node for node in event.nodes if node.fate != NEVER]
    counts = {
        "width": 1 + len(event.nodes),
        "drafted": len(real),
        "accepted": min(len(path), len(event.emitted)),
        "depth": max((node.depth for node in real), default=0),
    }
    for name, count in counts.items():
        if getattr(event, name) != count:
            raise ImpossibleError(f"{name} is {getattr(event, name)}, and the nodes make it {count}")


def _check_emitted(event: Round, path: Sequence[Node]) -> None:
    written = [*(node.token for node in path), event.last.token]
    if event.emitted != written[: len(event.emitted)]:
        raise ImpossibleError("the emitted tokens are not the accepted nodes and the target's own token")
    if not event.emitted or (event.cut is None and len(event.emitted) < len(written)):
        raise ImpossibleError(f"only {len(event.emitted)} of {len(written)} tokens are emitted and the text goes on")
    if len(event.emitted_raw) != len(event.emitted):
        raise ImpossibleError(f"{len(event.emitted)} tokens are emitted with {len(event.emitted_raw)} pieces of text")


def _check_last(event: Round, path: Sequence[Node], mass: float) -> None:
    """The target's own token stands below the accepted path; a bonus only below an accepted leaf."""
    last, end = event.last, path[-1].id if path else -1
    if last.slot != end:
        raise ImpossibleError(f"the target's own token stands at slot {last.slot}, and the accepted path ends at {end}")
    verified = any(node.parent == end and node.fate != NEVER for node in event.nodes)
    kind = "correction" if verified else "bonus" if path else "plain"
    if last.kind != kind:
        raise ImpossibleError(f"the target's own token is called a {last.kind}, where only a {kind} can stand")
    if last.distributions is not None:
        _check_distributions(last.distributions, mass)
        if not _shown(last.distributions, last.token) > 0:
            raise ImpossibleError(f"the target's own token {last.token} has no probability")


def _check_stages(event: Round) -> None:
    stages = event.timings
    spent = sum(stages.propose) + stages.verify + stages.accept + stages.commit + stages.host
    if not abs(spent - (event.end - event.start)) <= CLOCK_MS:
        raise ImpossibleError(f"its stages take {spent:g} ms, and the round {event.end - event.start:g} ms")


def _check_fates(event: Round) -> None:
    """Every verified node was accepted or rejected, as its decision says, and no other node was."""
    verified = {child.node: (decision, child) for decision in event.decisions for child in decision.children}
    passed = [node for node, (decision, child) in verified.items() if decision.rule == BLOCK and child.passed]
    for node in event.nodes:
        if (node.fate in ("accepted", "rejected")) != (node.id in verified):
            raise ImpossibleError(f"node {node.id} is {node.fate}, and its decision does not say so")
        if node.id not in verified:
            continue
        decision, child = verified[node.id]
        stands = node.id <= max(passed, default=-1) if decision.rule == BLOCK else child.passed
        if stands != (node.fate == "accepted"):
            raise ImpossibleError(f"node {node.id} is {node.fate}, and its decision says otherwise")


# A decision.


def _siblings(nodes: Sequence[Node]) -> Mapping[int, list[int]]:
    """The drafted children of each slot that has some."""
    by_slot: dict[int, list[int]] = {}
    for node in nodes:
        if node.fate != NEVER:
            by_slot.setdefault(node.parent, []).append(node.id)
    return by_slot


def _check_decision(
    decision: Decision, nodes: Sequence[Node], siblings_of: Mapping[int, list[int]], mass: float
) -> None:
    """Children of one slot, in draw order up to the accepted one, each with the result of its rule."""
    if not -1 <= decision.slot < len(nodes):
        raise ImpossibleError(f"a decision verifies the children of slot {decision.slot}, which does not exist")
    siblings = siblings_of.get(decision.slot, [])
    children = [child.node for child in decision.children]
    if not children or children != siblings[: len(children)]:
        raise ImpossibleError(
            f"the decision at slot {decision.slot} verifies {quoted(children)}, and its children: {quoted(siblings)}"
        )
    if decision.rule != BLOCK and len(children) < len(siblings) and not decision.children[-1].passed:
        raise ImpossibleError(f"the decision at slot {decision.slot} leaves out children, and accepts none before them")
    _check_faced(decision, nodes, mass)
    for child in decision.children:
        if not _follows(decision, child, nodes[child.node].token):
            raise ImpossibleError(f"node {child.node} {_said(child)}, which rule '{decision.rule}' cannot give")


def _check_faced(decision: Decision, nodes: Sequence[Node], mass: float) -> None:
    """One pair of distributions for each sibling under RRSw, else one for all; each shows the tokens it verified."""
    renewed = decision.rule == "rrsw"
    if len(decision.distributions) != (len(decision.children) if renewed else 1):
        raise ImpossibleError(f"the decision at slot {decision.slot} has {len(decision.distributions)} distributions")
    for distributions in decision.distributions:
        _check_distributions(distributions, mass)
    shown = [set(distributions.ids) for distributions in decision.distributions]
    for rank, child in enumerate(decision.children):
        if nodes[child.node].token not in shown[rank if renewed else 0]:
            raise ImpossibleError(f"node {child.node} is verified by a distribution that does not show its token")
    for child, (before, after) in zip(decision.children, pairwise(decision.distributions), strict=False):
        if not _is_renewed(before, after, nodes[child.node].token):
            raise ImpossibleError(f"the distributions after the rejection of node {child.node} do not follow from it")


def _is_renewed(before: Distributions, after: Distributions, rejected: int) -> bool:
    """The next sibling faces norm(P - Q)+ and Q without the rejected token (RRSw, 2402.12374)."""
    if before.q is None or after.q is None:
        return False
    shown = {token: (p, q) for token, p, q in zip(before.ids, before.p, before.q, strict=True)}
    residual = sum(p - q for p, q in shown.values() if p > q) + (before.rest_residual or 0.0)
    left = 1 - shown[rejected][1]
    for token, p, q in zip(after.ids, after.p, after.q, strict=True):
        if token not in shown:
            continue
        own_p, own_q = shown[token]
        want_q = 0.0 if token == rejected else own_q / max(left, LEAST)
        if residual > LEAST and not abs(p - max(own_p - own_q, 0.0) / residual) <= RENEWED + CLOSE / residual:
            return False
        if left > LEAST and not abs(q - want_q) <= RENEWED + CLOSE / left:
            return False
    return True


def _follows(decision: Decision, child: Verified, token: int) -> bool:
    """Does the result follow from what the rule compares?"""
    if decision.rule in CHOSEN:
        return decision.draw is not None and child.threshold is None and child.passed == (token == decision.draw)
    if child.threshold is None or (child.uniform is None) != (decision.rule in COMPARED):
        return False
    if decision.rule in ("token", "rrsw") and not _accepts_with_ratio(child, child.threshold):
        return False
    if child.uniform is not None:
        return _is_below(child.uniform, child.threshold, child.passed)
    if decision.rule == "typical":
        return _is_below(child.threshold, child.p, child.passed)
    return not child.passed if child.p == 0 else _is_below(child.threshold, child.p, child.passed, equal=True)


def _accepts_with_ratio(child: Verified, threshold: float) -> bool:
    """min(1, p/q); a child whose residual is 0 is never accepted."""
    if not child.q or (child.p == 0 and child.passed):
        return False
    return isclose(threshold, ratio_threshold(child.p, child.q), rel_tol=1e-6, abs_tol=1e-12)


def _is_below(low: float, high: float, said: bool, equal: bool = False) -> bool:
    """Is `low` below `high` (or equal), as was said? Either answer is right where rounding decides."""
    return said == (low <= high if equal else low < high) or isclose(low, high, abs_tol=CLOSE)


def _said(child: Verified) -> str:
    compared = "" if child.uniform is None or child.threshold is None else f" ({child.uniform:g}, {child.threshold:g})"
    return f"{'passed' if child.passed else 'did not pass'}{compared}"


# Distributions.


def _check_distributions(given: Distributions, mass: float) -> None:
    """Tokens once each; p, q, their overlap and their residual sum to what they must."""
    count = len(given.ids)
    if not count or len(set(given.ids)) != count or len(given.raw) != count or len(given.p) != count:
        raise ImpossibleError("a distribution does not name each of its tokens once")
    _refuse_mass("p", sum(given.p) + given.rest_p, mass)
    if given.q is None:
        return
    if len(given.q) != count or given.rest_q is None or given.rest_min is None or given.rest_residual is None:
        raise ImpossibleError("a draft distribution is incomplete")
    _refuse_mass("q", sum(given.q) + given.rest_q, mass)
    overlap = sum(map(min, given.p, given.q)) + given.rest_min
    residual = sum(p - q for p, q in zip(given.p, given.q, strict=True) if p > q) + given.rest_residual
    _refuse_mass("the overlap of p and q, and the residual", overlap + residual, 2 * mass)


def _refuse_mass(what: str, total: float, mass: float) -> None:
    if not abs(total - 1) <= mass:
        raise ImpossibleError(f"the probabilities of {what} sum to {total:g}, not 1")


def _shown(given: Distributions, token: int) -> float:
    return given.p[given.ids.index(token)] if token in given.ids else 0.0
