"""Makes a question of a recorded run: which kinds there are, and what each is asked of."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from draftscope.base.errors import DraftscopeError
from draftscope_app.doors.learn.classroom import of_lanes, of_rounds
from draftscope_app.doors.learn.classroom.questions import Kind, Question, Spec
from draftscope_app.doors.learn.classroom.recorded_lanes import Lane

OF_RUN: dict[Kind, Callable[[Spec, dict[str, Lane]], Question]] = {
    "faster": of_lanes.faster,
    "waits": of_lanes.waits,
    "off": of_lanes.off,
}
OF_LANE: dict[Kind, Callable[[Spec, Lane], Iterator[Callable[[], Question]]]] = {
    "survive": of_rounds.survive,
    "bonus": of_rounds.bonus,
    "refuse": of_rounds.refuse,
    "kept": of_rounds.kept,
    "rows": of_lanes.rows,
    "gap": of_lanes.gap,
}


def make_question(spec: Spec, lanes: dict[str, Lane]) -> Question:
    """The question of that kind about a recorded run. Raises `DraftscopeError` where no round of it fits."""
    if spec.kind in OF_RUN:
        return OF_RUN[spec.kind](spec, lanes)
    lane = lanes.get(spec.lane)
    if lane is None:
        names = ", ".join(lanes) or "none"
        raise DraftscopeError(f"lane = '{spec.lane}': the run has no such lane; its lanes are {names}.")
    fitting = list(OF_LANE[spec.kind](spec, lane))
    if spec.nth >= len(fitting):
        raise DraftscopeError(
            f"nth = {spec.nth}: lane '{spec.lane}' has {len(fitting)} rounds for a question of kind '{spec.kind}'; "
            "choose a smaller number or another kind."
        )
    return fitting[spec.nth]()
