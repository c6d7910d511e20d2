"""Limits on new runs: how many there are at once, how long their texts are, and none once the server is ending."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from draftscope.base.errors import DraftscopeError, quoted
from draftscope.base.text import valid_unicode
from draftscope_app.engine.answers import Answer, Engine, Log
from draftscope_app.engine.config import Limits
from draftscope_app.engine.jobs import NOBODY, Asker, Job

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
        self, job: Job, instead_of: Answer | None = None, asker: Asker = NOBODY, log: Log | None = None
    ) -> Answer:
        """Takes a job of `asker` into the queue. `instead_of` is their older one: it is stopped and does not count. The
        events are added to the `log`, or to one of its own.

        Raises `DraftscopeError` where a text is too long, the queue or the visitor's or address's share of it is full,
        or the server is ending.
        """
        if self._ending:
            raise DraftscopeError("The server is ending; run again in a minute.")
        for values in ({"prompt": job.prompt}, *(settings.model_dump() for settings in job.lanes.values())):
            self.read(values)
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

    def read(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What a visitor sends, by name, before anything is made of it.

        Raises `DraftscopeError` for a prompt that is no text, and for a text that is too long or holds half a
        character: visitors can send any JSON.
        """
        given = dict(values)
        if "prompt" in given:
            given["prompt"] = text_of(given["prompt"])
        refuse_long(given, self.limits.max_text)
        _refuse_halves(given)
        return given

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


def refuse_long(values: Mapping[str, Any], most: int) -> None:
    """Raises `DraftscopeError` for a text, or a list of texts, of more than `most` characters altogether."""
    for name, value in values.items():
        length = len(value) if isinstance(value, str) else _length(value) if isinstance(value, list | tuple) else 0
        if length > most:
            raise DraftscopeError(
                f"{name} is {length:,} characters long, and this server takes at most {most:,}; shorten it."
            )


def _length(values: Iterable[Any]) -> int:
    """Characters of all texts in a list; anything else in it counts as one."""
    return sum(len(value) if isinstance(value, str) else 1 for value in values)


def text_of(prompt: Any) -> str:
    """The prompt. Raises `DraftscopeError` for anything but a text: visitors can send any JSON."""
    if not isinstance(prompt, str):
        given = quoted(prompt)
        raise DraftscopeError(f'prompt = {given} is not a text; send one in quotation marks, such as "{given}".')
    return prompt


def refuse_long_runs(length: int, most: int) -> None:
    """Raises `DraftscopeError` for a run of more than `most` tokens."""
    if length > most:
        raise DraftscopeError(
            f"max_new_tokens = {length}: this server writes at most {most} tokens a run; choose fewer, or use the "
            "command line."
        )


def _refuse_halves(values: Mapping[str, Any]) -> None:
    """Raises `DraftscopeError` for half a UTF-16 pair: JSON can write one alone, and it stands for no character."""
    for name, value in values.items():
        for text in value if isinstance(value, list | tuple) else (value,):
            if isinstance(text, str) and not valid_unicode(text):
                half = next(ord(char) for char in text if "\ud800" <= char <= "\udfff")
                raise DraftscopeError(
                    f"{name} contains \\u{half:04x}, which is half of a character; remove it or send both halves."
                )
