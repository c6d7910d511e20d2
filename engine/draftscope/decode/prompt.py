"""From a prompt to token ids: the chat template, and whether prompt and answer fit the models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from draftscope.base.admit import EMPTY, admit
from draftscope.base.errors import DraftscopeError, quoted
from draftscope.decode.lane import Lane
from draftscope.decode.pair import LoadedPair
from draftscope.drafters import DrafterInfo, plain
from draftscope.drafters.model import cascade
from draftscope.models.files.tokenizer_file import without_panic
from draftscope.models.loading.chat import Chat, ChatMessage, is_chat
from draftscope.models.model import Model

LONGEST_TOKEN = 64  # characters; a longer prompt for each token of the context cannot fit

AnyPrompt = str | Sequence[ChatMessage] | Sequence[int]  # a text, the messages of a chat, or token ids
KINDS = "a text, a list of messages {'role': ..., 'content': ...}, or a list of token ids"


@dataclass(frozen=True)
class EncodedPrompt:
    """What a run decodes: the prompt as given, as rendered by a chat template (or empty), and its tokens."""

    prompt: str
    rendered: str
    tokens: list[int]


def encoded_prompt(pair: LoadedPair, prompt: AnyPrompt, lane: Lane, given: Sequence[int] = ()) -> EncodedPrompt:
    """The prompt's tokens and those `given` after it. Raises `DraftscopeError` if they do not fit the models."""
    most = len(given) + lane.settings.max_new_tokens
    rendered, tokens = read_prompt(pair, prompt, most, Chat.of(lane.settings), lane.info)
    return EncodedPrompt(prompt_text(pair, prompt), rendered, [*tokens, *given])


def read_prompt(
    pair: LoadedPair, prompt: AnyPrompt, max_new_tokens: int, chat: Chat, info: DrafterInfo = plain.INFO
) -> tuple[str, list[int]]:
    """The prompt in its chat template (empty if the model has none or the prompt is raw), and its tokens.

    Token ids are read as they are. Raises `DraftscopeError` for an empty prompt, one that is no prompt, or one that is
    too long, together with its answer, for the target or for a model that the drafter cannot do without.
    """
    readers = _readers(pair, info)
    room = min(model.context for model in readers)
    rendered, tokens = "", _token_ids(prompt)
    if tokens is None:
        rendered, tokens = _tokenized(pair, _text_or_chat(prompt, room), chat)
    _refuse_tokens(pair, tokens)
    _refuse_length(readers, len(tokens), max_new_tokens)
    return rendered, tokens


def _readers(pair: LoadedPair, info: DrafterInfo) -> list[Model]:
    """The target, and the draft models that a drafter cannot do without."""
    drafts = pair.models[1:] if info is cascade.INFO else pair.models[1:2]
    return [pair.target, *(drafts if info.needs_draft else [])]


def prompt_text(pair: LoadedPair, prompt: AnyPrompt) -> str:
    """The prompt as a trace names it: the text, the last message by the user, or the text of the token ids."""
    if isinstance(prompt, str):
        return prompt
    if is_chat(prompt):
        return str([message for message in prompt if message["role"] == "user" or message is prompt[-1]][-1]["content"])
    text: str = pair.tokenizer.decode(_token_ids(prompt))
    return text


def listed_prompts(prompts: Any) -> list[AnyPrompt] | None:
    """The prompts of a list or another iterable (a column of a table); None if it is one prompt."""
    if isinstance(prompts, str) or is_chat(prompts) or _token_ids(prompts) is not None:
        return None
    if not isinstance(prompts, Iterable) or isinstance(prompts, Mapping | bytes) or getattr(prompts, "ndim", 1) == 0:
        raise DraftscopeError(f"prompt = {quoted(prompts)}: give {KINDS}, or several of them in a list.")
    several = list(prompts)
    if not several:
        raise DraftscopeError("The list of prompts is empty; give at least one.")
    return several


def _token_ids(prompt: Any) -> list[int] | None:
    """The ids of a non-empty list, a tensor or an array of whole numbers; None for anything else."""
    ids = prompt.tolist() if hasattr(prompt, "tolist") else prompt
    if not isinstance(ids, Sequence) or isinstance(ids, str | bytes) or not ids:
        return None
    whole = all(isinstance(token, Integral) and not isinstance(token, bool) for token in ids)
    return list(map(int, ids)) if whole else None


def _text_or_chat(prompt: AnyPrompt, room: int) -> str | Sequence[ChatMessage]:
    if is_chat(prompt):
        return prompt
    if not isinstance(prompt, str):
        raise DraftscopeError(f"prompt = {quoted(prompt)}: give {KINDS}.")
    admit({"prompt": prompt}, LONGEST_TOKEN * room)
    return prompt


def _tokenized(pair: LoadedPair, prompt: str | Sequence[ChatMessage], chat: Chat) -> tuple[str, list[int]]:
    rendered = chat.render(pair.tokenizer, prompt, pair.target.name)
    if rendered is not None and isinstance(prompt, str) and not prompt.strip():
        raise DraftscopeError(EMPTY)  # a raw prompt of spaces or line ends is a text
    text, special = (prompt, True) if rendered is None else (rendered, False)  # a template has its own BOS
    with without_panic(pair.target.name):
        tokens: list[int] = pair.tokenizer(text, add_special_tokens=special)["input_ids"]
    if not tokens and rendered is None:
        raise DraftscopeError(EMPTY)
    if not tokens:
        raise DraftscopeError("The chat template turns this prompt into nothing; decode without it (--raw).")
    return rendered or "", tokens


def _refuse_tokens(pair: LoadedPair, tokens: list[int]) -> None:
    highest = max(tokens)
    if min(tokens) < 0:
        raise DraftscopeError(f"token = {min(tokens)}: token ids begin at 0.")
    for model in pair.models:
        if highest >= model.vocabulary:
            raise DraftscopeError(
                f"The prompt has token {highest:,}, but '{model.name}' knows only 0 to {model.vocabulary - 1:,}; "
                "give ids of its tokenizer, or load the model with the tokenizer that it was trained with."
            )


def _refuse_length(readers: list[Model], tokens: int, more: int) -> None:
    target, *_ = readers
    shortest = min(readers, key=lambda model: model.context)  # the target, if several are
    if tokens + more > shortest.context:
        most = shortest.context - tokens
        remedy = f"ask for at most {most} new tokens or shorten it" if most > 0 else "shorten it"
        whose = "the target's"
        if shortest is not target:
            whose, remedy = f"the draft's ('{shortest.name}')", f"{remedy}, or choose 'ngram', which needs no draft"
        raise DraftscopeError(
            f"The prompt has {tokens:,} tokens and {more:,} more were asked for, but {whose} context holds "
            f"{shortest.context:,}; {remedy}."
        )
    for model in readers:
        if model.rope_switch_length and tokens - 1 <= model.rope_switch_length < tokens + more:
            raise DraftscopeError(
                f"'{model.name}' changes its rotary factors at {model.rope_switch_length:,} tokens, and {tokens:,} "
                f"with {more:,} more would cross that; stay below it or start with a longer prompt."
            )
