"""Runs with fewer tokens in their distributions: a page that is copied and downloaded has no room for all of them."""

from __future__ import annotations

from draftscope.trace.events import AnyEvent, Decision, Distributions, Round

MAX_SHOWN = 10  # tokens of a distribution, beside those that the round drafted, drew or wrote


def thinned(event: AnyEvent) -> AnyEvent:
    """The event; of a round, the distributions show their likeliest tokens only, and the others by their mass."""
    if not isinstance(event, Round):
        return event
    wanted = {*(node.token for node in event.nodes), *event.emitted, event.last.token}
    decisions = [_decision(decision, wanted) for decision in event.decisions]
    last = event.last
    if last.distributions is not None:
        [fewer] = _fewer([last.distributions], wanted)
        last = last.model_copy(update={"distributions": fewer})
    return event.model_copy(update={"decisions": decisions, "last": last})


def _decision(decision: Decision, wanted: set[int]) -> Decision:
    drawn = wanted if decision.draw is None else wanted | {decision.draw}
    return decision.model_copy(update={"distributions": _fewer(decision.distributions, drawn)})


def _fewer(given: list[Distributions], wanted: set[int]) -> list[Distributions]:
    """The distributions of one decision, which keep the same tokens: each follows from the one before."""
    kept = set(wanted)
    for one in given:
        heights = [max(pair) for pair in zip(one.p, one.q or one.p, strict=True)]
        order = sorted(range(len(one.ids)), key=heights.__getitem__, reverse=True)
        kept |= {one.ids[at] for at in order[:MAX_SHOWN]}
    return [_cut(one, kept) for one in given]


def _cut(one: Distributions, kept: set[int]) -> Distributions:
    shown = [at for at, token in enumerate(one.ids) if token in kept]
    gone = [at for at, token in enumerate(one.ids) if token not in kept]
    changed = {"ids": [one.ids[at] for at in shown], "raw": [one.raw[at] for at in shown]}
    values: dict[str, object] = {**changed, "p": [one.p[at] for at in shown]}
    values["rest_p"] = one.rest_p + sum(one.p[at] for at in gone)
    if one.q is not None:
        p, q = one.p, one.q
        values["q"] = [q[at] for at in shown]
        values["rest_q"] = (one.rest_q or 0.0) + sum(q[at] for at in gone)
        values["rest_min"] = (one.rest_min or 0.0) + sum(min(p[at], q[at]) for at in gone)
        values["rest_residual"] = (one.rest_residual or 0.0) + sum(max(p[at] - q[at], 0.0) for at in gone)
    return one.model_copy(update=values)
