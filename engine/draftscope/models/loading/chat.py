"""Prompts of instruct models, rendered with the model's own chat template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError

from draftscope.base.errors import DraftscopeError
from draftscope.base.settings import GeneralSettings


@dataclass(frozen=True)
class Chat:
    """How a prompt is presented to a model. `raw` continues the bare prompt, as do models without a template."""

    raw: bool = False
    system: str = ""
    thinking: bool = False

    @classmethod
    def of(cls, settings: GeneralSettings) -> Chat:
        return cls(settings.raw, settings.system, settings.thinking)

    def render(self, tokenizer: Any, prompt: str) -> str | None:
        """The text that the model reads, or None if it is the prompt itself.

        Raises `DraftscopeError` for a system message or a thinking mode that the template does not support.
        """
        template = getattr(tokenizer, "chat_template", None)
        if self.raw or not template:
            self._refuse_options("the prompt is read raw" if template else "this model has no chat template")
            return None
        if self.thinking and "enable_thinking" not in str(template):
            raise DraftscopeError("thinking = True: this model's chat template has no thinking mode; leave it out.")
        system = [{"role": "system", "content": self.system}] if self.system else []
        messages = [*system, {"role": "user", "content": prompt}]
        try:
            rendered: str = tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, enable_thinking=self.thinking
            )
        except (TemplateError, ValueError, TypeError) as error:
            reason = str(error).split("\n")[0][:120].rstrip(".")
            raise DraftscopeError(
                f"The chat template refuses this prompt ({reason}); leave the system message out, or use --raw."
            ) from None
        return rendered

    def _refuse_options(self, because: str) -> None:
        option = f"system = '{self.system[:40]}'" if self.system else "thinking = True" if self.thinking else ""
        if option:
            raise DraftscopeError(f"{option} needs a chat template, but {because}; leave it out.")
