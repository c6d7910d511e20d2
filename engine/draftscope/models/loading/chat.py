"""Prompts of instruct models, rendered with the model's own chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from draftscope.base.common_settings import GeneralSettings
from draftscope.base.errors import DraftscopeError
from draftscope.models.files.bounded import BOUNDED, RefusedError

SECONDS = 3.0  # for one prompt; real templates take milliseconds
MAX_ADDED = 100_000  # characters; the longest real ones write about 10,000

ChatMessage = Mapping[str, Any]  # {"role": "user", "content": "..."}, as transformers and OpenAI's API write it


def is_chat(prompt: object) -> TypeGuard[Sequence[ChatMessage]]:
    """Is the prompt a conversation, a list of messages?"""
    return isinstance(prompt, Sequence) and len(prompt) > 0 and all(isinstance(part, Mapping) for part in prompt)


@dataclass(frozen=True)
class Chat:
    """How a prompt is presented to a model. `raw` continues the bare prompt, as do models without a template."""

    raw: bool = False
    system: str = ""
    thinking: bool = False

    @classmethod
    def of(cls, settings: GeneralSettings) -> Chat:
        return cls(settings.raw, settings.system, settings.thinking)

    def render(self, tokenizer: Any, prompt: str | Sequence[ChatMessage], whose: str) -> str | None:
        """The text that the model reads after the user's `prompt` or a conversation; None if it is the prompt itself.

        Raises `DraftscopeError` for a conversation without a template, for messages, a system message or a thinking
        mode that the template does not support, or for a template beyond its bounds; `whose` names the model.
        """
        template = getattr(tokenizer, "chat_template", None)
        if self.raw or not template:
            self._refuse_options(prompt, "the prompt is read raw" if template else "this model has no chat template")
            return None
        if self.thinking and "enable_thinking" not in str(template):
            raise DraftscopeError("thinking = True: this model's chat template has no thinking mode; leave it out.")
        system = [{"role": "system", "content": self.system}] if self.system else []
        conversation = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else _messages(prompt)
        return in_template(tokenizer, [*system, *conversation], whose, enable_thinking=self.thinking)

    def _refuse_options(self, prompt: str | Sequence[ChatMessage], because: str) -> None:
        """Raises `DraftscopeError` for what only a chat template could place."""
        option = f"system = '{self.system[:40]}'" if self.system else "thinking = True" if self.thinking else ""
        if option:
            raise DraftscopeError(f"{option} needs a chat template, but {because}; leave it out.")
        if not isinstance(prompt, str):
            raise DraftscopeError(
                f"A list of messages needs a chat template, but {because}; give the prompt as a text."
            )


def _messages(prompt: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """The messages; `DraftscopeError` for one without a role or a text."""
    for message in prompt:
        if not isinstance(message.get("role"), str) or not isinstance(message.get("content"), str):
            raise DraftscopeError(f"message = {dict(message)!r:.80}: write {{'role': 'user', 'content': 'a text'}}.")
    return [dict(message) for message in prompt]


def in_template(tokenizer: Any, messages: list[dict[str, Any]], whose: str, **variables: Any) -> str:
    """`messages` as `tokenizer.apply_chat_template` renders them, up to the model's turn.

    A template is a program that came with a model, so it runs in a process that can be ended. Raises `DraftscopeError`
    if it refuses these messages, takes longer than `SECONDS` or too much memory, or adds more than `MAX_ADDED`
    characters to them.
    """
    most = MAX_ADDED + sum(len(message["content"]) for message in messages)
    try:
        return str(
            BOUNDED.ask(
                "render", SECONDS, template=tokenizer.get_chat_template(), messages=messages,
                variables=tokenizer.special_tokens_map | variables, most=most,
            )
        )  # fmt: skip
    except (RefusedError, ValueError) as error:
        raise DraftscopeError(
            f"The chat template of '{whose}' fails on this prompt ({error}); leave the system message out, or use "
            "--raw."
        ) from None
