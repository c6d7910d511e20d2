"""Limits on new runs: how many there are at once, how long their texts are, and none once the server is ending."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from draftscope.base.admit import admit
from draftscope.base.errors import DraftscopeError, quoted
from draftscope_app.engine.answers import Answer, Engine, Log
from draftscope_app.engine.config import Limits
from draftscope_app.engine.jobs import NOBODY, Asker, Job

Given = Mapping[str, Any]  # what a visitor has set, by name, before anything is made of it: any JSON
Make = Callable[[Given], Job]  # may raise `DraftscopeError`

UNREADABLE = "The page sent a request that cannot be read; reload it and try again."


class PageRequest(BaseModel):
    """What the page sends beside its controls. Anybody can send any JSON in its place."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    @classmethod
    def of(cls, sent: Any) -> Self:
        """Raises `DraftscopeError` for anything else."""
        try:
            return cls.model_validate(sent)
        except ValidationError:
            raise DraftscopeError(UNREADABLE) from None


class Admission:
    """Stands between visitors and the engine; the page and the API both go through it."""

    def __init__(self, engine: Engine, limits: Limits) -> None:
        self.engine, self.limits = engine, limits
        self._ending = False
        self._admitted: list[Answer] = []  # that may not be over yet

    def admit(
        self,
        given: Given,
        make: Make,
        instead_of: Answer | None = None,
        asker: Asker = NOBODY,
        log: Log | None = None,
    ) -> Answer:
        """Takes the job that `make` makes of what `asker` has `given` into the queue. `instead_of` is their older one:
        it is stopped and does not count. The events are added to the `log`, or to one of its own.

        Raises `DraftscopeError` where a text or a run is too long, a text is no text, the queue or the visitor's or
        address's share of it is full, or the server is ending.
        """
        if self._ending:
            raise DraftscopeError("The server is ending; run again in a minute.")
        job = self._made(given, make)
        others = len(self.engine) - (instead_of is not None)
        if others >= self.limits.max_runs:
            raise DraftscopeError(
                f"{others} runs are decoded or waiting here, and this server takes no more; run again in a moment."
            )
        self._refuse_too_many(asker, instead_of)
        if instead_of is not None:
            instead_of.stop()
        answer = self.engine.run(job, log, asker)
        self._admitted.append(answer)
        return answer

    def _made(self, given: Given, make: Make) -> Job:
        """The job. What was given is checked, and the job's own texts: those of a fork are of a run that may have been
        loaded."""
        if "prompt" in given:
            text_of(given["prompt"])
        admit(given, self.limits.max_text)
        job = make(given)
        admit({"prompt": job.prompt or None}, self.limits.max_text)
        for settings in job.lanes.values():
            admit(settings.model_dump(), self.limits.max_text)
            if "max_new_tokens" in settings.model_fields_set:
                self._refuse_long_run(settings.max_new_tokens)
        return job

    def _refuse_long_run(self, tokens: int) -> None:
        most = self.limits.max_tokens
        if tokens > most:
            raise DraftscopeError(
                f"max_new_tokens = {tokens}: this server writes at most {most} tokens a run; choose fewer, or use the "
                "command line."
            )

    def _refuse_too_many(self, asker: Asker, instead_of: Answer | None) -> None:
        """Raises `DraftscopeError` where so many runs of this visitor, or of this address, are here already."""
        self._admitted = [one for one in self._admitted if not one.over and not one.stopped]
        askers = [one.asker for one in self._admitted if one is not instead_of]
        limits = self.limits
        shares = [(askers.count(asker), limits.max_runs_visitor, "runs of yours", "visitor")]
        if asker.address:
            addresses = [one.address for one in askers]
            shares.append((addresses.count(asker.address), limits.max_runs_address, "runs of your address", "address"))
        for count, most, whose, share in shares:
            if count >= most:
                raise DraftscopeError(
                    f"{count} {whose} are decoded or waiting here, and this server takes at most {most} of one "
                    f"{share}; wait for the end of one."
                )

    def end(self) -> None:
        """Takes no more runs; those that are here go on."""
        self._ending = True

    @property
    def ready(self) -> bool:
        """A run that starts now would be decoded."""
        return self.engine.status.phase == "ready" and not self.engine.silent and not self._ending


def text_of(prompt: Any) -> str:
    """The prompt. Raises `DraftscopeError` for anything but a text: visitors can send any JSON."""
    if not isinstance(prompt, str):
        given = quoted(prompt)
        raise DraftscopeError(f'prompt = {given} is not a text; send one in quotation marks, such as "{given}".')
    return prompt
