"""The check of the shown run's drafter and rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from draftscope.base.errors import DraftscopeError
from draftscope.drafters.settings import Settings
from draftscope.trace.events import AnyEvent, RunStart
from draftscope_app.doors.decide.check.job import CheckJob
from draftscope_app.engine.admission import Given
from draftscope_app.engine.jobs import new_id
from draftscope_app.page.task import CardPage

SAMPLES = 2048  # of each distribution test, as on the command line
CHECKED = ("rule", "lenience", "agreement", "draft_length", "confidence", "seed")  # of the shown run's settings


class Page(CardPage):
    kind: ClassVar[str] = "check"
    reads = ()

    def job(self, _: Given, __: Any, session: str | None) -> CheckJob:
        return check_of(self.shared.events(session))

    def about(self, job: CheckJob) -> Mapping[str, Any]:
        """What was asked for, by which the card knows the check of the same settings again."""
        (settings,) = job.lanes.values()
        return {"settings": settings.model_dump(exclude_unset=True)}


def check_of(events: Sequence[AnyEvent]) -> CheckJob:
    """Of the events of a run. Raises `DraftscopeError` where nothing was drafted."""
    starts = [event for event in events if isinstance(event, RunStart) and event.drafter != "plain"]
    if not starts:
        raise DraftscopeError("Nothing was drafted in this run, so there is nothing to check; choose another drafter.")
    start = starts[0]
    values: dict[str, Any] = {name: start.settings[name] for name in CHECKED if name in start.settings}
    settings = Settings.of(**{"drafter": start.drafter} | values)
    return CheckJob(id=new_id(), prompt=start.prompt, lanes={"check": settings}, samples=SAMPLES)
