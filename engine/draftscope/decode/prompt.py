"""From a prompt to token ids: the chat template, and whether prompt and answer fit the models."""

from __future__ import annotations

from draftscope.base.errors import DraftscopeError
from draftscope.decode.pair import LoadedPair
from draftscope.models.files.tokenizer_file import without_panic
from draftscope.models.loading.chat import Chat

LONGEST_TOKEN = 64  # characters; a longer prompt for each token of the context cannot fit


def read_prompt(pair: LoadedPair, prompt: str, max_new_tokens: int, chat: Chat) -> tuple[str, list[int]]:
    """The prompt in its chat template (empty if the model has none or the prompt is raw), and its tokens.

    Raises `DraftscopeError` for an empty prompt, or one that is too long for the models together with its answer.
    """
    if not prompt.strip():
        raise DraftscopeError("The prompt is empty; write at least a word to continue from.")
    room = min(model.context for model in pair.models)
    if len(prompt) > LONGEST_TOKEN * room:
        raise DraftscopeError(
            f"The prompt has {len(prompt):,} characters and the models read {room:,} tokens; shorten it."
        )
    rendered = chat.render(pair.tokenizer, prompt, pair.target.name)
    text, special = (prompt, True) if rendered is None else (rendered, False)  # a template has its own BOS
    with without_panic(pair.target.name):
        tokens: list[int] = pair.tokenizer(text, add_special_tokens=special)["input_ids"]
    if not tokens:
        raise DraftscopeError("The chat template turns this prompt into nothing; decode without it (--raw).")
    _refuse_tokens(pair, tokens)
    _refuse_length(pair, len(tokens), max_new_tokens, room)
    return rendered or "", tokens


def _refuse_tokens(pair: LoadedPair, tokens: list[int]) -> None:
    highest = max(tokens)
    for model in pair.models:
        if highest >= model.vocabulary:
            raise DraftscopeError(
                f"The tokenizer writes token {highest:,}, but '{model.name}' knows only {model.vocabulary:,} tokens; "
                "load the model with the tokenizer that it was trained with."
            )


def _refuse_length(pair: LoadedPair, tokens: int, more: int, room: int) -> None:
    if tokens + more > room:
        most = room - tokens
        remedy = f"ask for at most {most} new tokens or shorten it" if most > 0 else "shorten it"
        raise DraftscopeError(
            f"The prompt has {tokens:,} tokens and {more:,} more were asked for, "
            f"but the models' context holds {room:,}; {remedy}."
        )
    for model in pair.models:
        if model.seam and tokens - 1 <= model.seam < tokens + more:
            raise DraftscopeError(
                f"'{model.name}' changes its rotary factors at {model.seam:,} tokens, and {tokens:,} with "
                f"{more:,} more would cross that; stay below it or start with a longer prompt."
            )
