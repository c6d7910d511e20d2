"""The engine as the verifier of a class's drafts: runs that go on after given tokens, and a head that competes."""

from __future__ import annotations

from draftscope.base.prompts import shipped
from draftscope.decode.fork import ForkPoint
from draftscope.drafters.settings import Settings
from draftscope.models.head_kinds import SMALL_MODEL, kinds
from draftscope.trace.events import AnyEvent
from draftscope_app.engine.admission import Admission
from draftscope_app.engine.answers import whole
from draftscope_app.engine.jobs import Asker, new_id
from draftscope_app.engine.run_job import RunJob

CLASS = Asker(session="class")  # all classes of a server take turns as one visitor


class EngineVerifier:
    """Decodes what a class asks for, in the queue of all visitors."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    async def decode(self, prompt: str, settings: Settings, tokens: tuple[int, ...]) -> list[AnyEvent]:
        """The events of a run that goes on after `tokens`. Raises `DraftscopeError` where it cannot be decoded now."""
        fork = ForkPoint("class", 0, tokens) if tokens else None
        job = RunJob(id=new_id(), prompt=prompt, lanes={"class": settings}, fork_point=fork)
        return await whole(self._admission.engine, self._admission.admit({}, lambda _: job, asker=CLASS))

    def head(self) -> tuple[str, str]:
        """Name and title of the drafter that competes, the first kind of head that can run or the draft model; empty
        without one."""
        titles = {
            drafter.name: drafter.title for drafter in self._admission.engine.status.drafters if drafter.available
        }
        return next(((name, titles[name]) for name in (*kinds(), SMALL_MODEL) if name in titles), ("", ""))

    def prompt(self) -> str:
        """The first story that is shipped: a question for a chat model, else the beginning of a text."""
        prompts = shipped(self._admission.engine.status.chat)
        return next(prompt.text for prompt in prompts if prompt.kind == "story")
