"""The texts of a benchmark: those that are shipped, or any standard prompt file, one JSON object a line.

A line that cannot be used is named and left out. Imports no torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError

# Where the text is, the surest name first: Alpaca's `text`, for one, holds the answer too.
TEXTS = ("turns", "messages", "instruction", "prompt", "question", "text")
KINDS = ("category", "kind", "task")
SHOWN = 3  # broken lines that are named one by one


@dataclass(frozen=True)
class Prompt:
    """A text to continue and its kind."""

    kind: str
    text: str


class BrokenLineError(ValueError):
    """Why a line cannot be used."""


def shipped() -> list[Prompt]:
    """The prompts that come with Draftscope, two of each kind of text."""
    texts: dict[str, list[str]] = json.loads((assets() / "prompts.json").read_text(encoding="utf-8"))
    return [Prompt(kind, text) for kind, own in texts.items() for text in own]


def read(path: Path) -> tuple[list[Prompt], list[str]]:
    """The prompts of a file of JSON lines, and a note where lines were left out.

    The text is in `turns`, `messages` (the first of the user), `instruction` (and `input`), `prompt`, `question` or
    `text`; the kind in `category`, `kind` or `task`, or else it is the file's name. Raises `DraftscopeError` for a
    file that cannot be read or has no usable line.
    """
    try:
        lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DraftscopeError(f"The prompt file '{path}' cannot be read ({reason}); check the path.") from None
    found, broken = [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(_prompt(line, path.stem))
        except BrokenLineError as error:
            broken.append(f"line {number} {error}")
    if not found:
        why = f"; {broken[0]}" if broken else ""
        raise DraftscopeError(
            f"The prompt file '{path}' has no usable line{why}. Give one JSON object a line, with 'prompt' or 'turns'."
        )
    return found, [_left_out(path, len(found), broken)] if broken else []


def select(
    prompts: Sequence[Prompt], kinds: Sequence[str] = (), per_kind: int | None = None
) -> dict[str, list[Prompt]]:
    """Prompts by kind, in order; of each kind the first `per_kind`. `DraftscopeError` for a kind that is not there."""
    by_kind: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        by_kind.setdefault(prompt.kind, []).append(prompt)
    for kind in kinds:
        if kind not in by_kind:
            raise DraftscopeError(f"There is no kind of text '{kind[:40]}'; known are {', '.join(by_kind)[:300]}.")
    return {kind: by_kind[kind][:per_kind] for kind in kinds or by_kind}


def _left_out(path: Path, usable: int, broken: Sequence[str]) -> str:
    more = f"; and {len(broken) - SHOWN} more" if len(broken) > SHOWN else ""
    said = "; ".join(broken[:SHOWN])
    return f"{path.name}: {len(broken)} of {usable + len(broken)} lines were left out: {said}{more}."


def _prompt(line: bytes, default_kind: str) -> Prompt:
    try:
        record = json.loads(line.decode())
    except UnicodeDecodeError:
        raise BrokenLineError("is not valid UTF-8") from None
    except RecursionError:
        raise BrokenLineError("is nested too deeply") from None
    except ValueError as error:
        raise BrokenLineError(f"is not JSON ({str(error).split(':')[0].lower()})") from None
    if not isinstance(record, dict):
        raise BrokenLineError("is not a JSON object")
    return Prompt(_kind(record, default_kind), _usable(_text(record)))


def _text(record: Mapping[str, Any]) -> str:
    field = next((name for name in TEXTS if record.get(name) is not None), None)
    if field is None:
        raise BrokenLineError(f"has none of {', '.join(TEXTS)}")
    text = _plain(record[field])
    if text is None:
        raise BrokenLineError(f"has no text in '{field}'")
    extra = record.get("input") if field == "instruction" else None
    return f"{text}\n\n{extra}" if isinstance(extra, str) and extra.strip() else text


def _plain(value: Any) -> str | None:
    """A text as it stands, the first of several turns, or the first message of the user; None where there is none."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(part, str) for part in value):
        return str(value[0])
    said = next((part for part in value if isinstance(part, dict) and part.get("role") == "user"), None)
    return None if said is None else _content(said.get("content"))


def _content(content: Any) -> str | None:
    """What a message says: a text, or the texts among its parts."""
    if isinstance(content, list):
        texts = [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
        return "".join(texts) if texts else None
    return content if isinstance(content, str) else None


def _usable(text: str) -> str:
    if not text.strip():
        raise BrokenLineError("has an empty text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BrokenLineError("holds half a surrogate pair, which is no character") from None
    return text


def _kind(record: Mapping[str, Any], default: str) -> str:
    named = next((record[name] for name in KINDS if isinstance(record.get(name), str) and record[name].strip()), None)
    kind = str(named or default).encode(errors="replace").decode()
    return " ".join(kind.split())[:40] or "prompts"
