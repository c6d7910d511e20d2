"""The comparison of all drafters on one prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from draftscope.base.errors import DraftscopeError
from draftscope_app.doors.decide.compare.job import CompareJob
from draftscope_app.engine.admission import Given
from draftscope_app.engine.jobs import DrafterChoice, new_id
from draftscope_app.page.controls import LANE, Controls, lanes
from draftscope_app.page.task import CardPage

REPEATS = 3  # whole runs of each drafter


class Page(CardPage):
    kind: ClassVar[str] = "compare"

    def job(self, given: Given, _: Any, __: str | None) -> CompareJob:
        return comparison_of(given, self.shared.admission.engine.status.drafters)

    def about(self, job: CompareJob) -> Mapping[str, Any]:
        """Its settings."""
        plain = job.lanes["plain"]
        return {
            "prompt": job.prompt[:200],
            **{name: getattr(plain, name) for name in ("temperature", "top_k", "top_p", "min_p", "seed")},
            "tokens": plain.max_new_tokens,
            "lanes": len(job.lanes),
            "repeats": job.repeats,
        }


def comparison_of(controls: Controls, drafters: Sequence[DrafterChoice]) -> CompareJob:
    """Plain decoding and every available drafter, each with those of these settings that it reads."""
    able = [d for d in drafters if d.available and not d.is_detour and d.name != "plain"]
    if not controls["typed"]:
        able = [d for d in able if not d.is_typed]
    if not able:
        raise DraftscopeError("There is no drafter to compare yet; wait until the engine has loaded its models.")
    chosen = {d.name: lanes({**controls, "drafter": d.name}, d) for d in able}
    plain = chosen[able[0].name]["plain"]
    named = {name: both[LANE] for name, both in chosen.items()}
    return CompareJob(id=new_id(), prompt=controls["prompt"], lanes={"plain": plain} | named, repeats=REPEATS)
