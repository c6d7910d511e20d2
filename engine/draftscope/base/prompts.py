"""The prompts of a benchmark: the shipped ones, or any prompt file with one JSON object a line.

An unusable line is reported and skipped. Imports no torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from draftscope.base.admit import admit
from draftscope.base.assets import assets
from draftscope.base.errors import MAX_READ, DraftscopeError, one_sentence, read_bytes

# Fields that may hold the text, the most reliable first: Alpaca's `text`, for example, also contains the answer.
TEXTS = ("turns", "messages", "instruction", "prompt", "question", "text")
REQUESTS = ("body", "request", "request_body", "input")  # of a log line: fields that may hold the request
KINDS = ("category", "kind", "task")
SHOWN = 3  # broken lines that are reported one by one
# How SPEED-Bench marks a text of others, which it may not pass on: more than half of what is published.
MASKED = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE"


@dataclass(frozen=True)
class Prompt:
    """A text to continue, and its kind."""

    kind: str
    text: str


class BrokenLineError(ValueError):
    """Why a line cannot be used."""


def shipped(chat: bool = False) -> list[Prompt]:
    """The prompts shipped with Draftscope, two of each kind: texts to continue, or questions for a `chat` model."""
    path = assets() / ("chat_prompts.json" if chat else "prompts.json")
    by_kind: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))
    return [Prompt(kind, text) for kind, texts in by_kind.items() for text in texts]


def read(path: Path) -> tuple[list[Prompt], list[str]]:
    """The prompts of a file of JSON lines, or of Parquet with such fields, and a note about skipped lines, if any.

    The text is taken from `turns` (the first), `messages` (the first by the user), `instruction` (with `input`),
    `prompt`, `question` or `text`; the kind from `category`, `kind` or `task`, else from the file's name. A line may
    also hold a whole request in `body` (as OpenAI's batch files do), `request`, `request_body` or `input`, as logs of
    servers and proxies do, as an object or as JSON in a string. Raises `DraftscopeError` for a file that cannot be read
    or has no usable line.
    """
    lines = _rows(path) if path.suffix == ".parquet" else read_bytes(path, "The prompt file").split(b"\n")
    lines[:1] = [line.removeprefix(b"\xef\xbb\xbf") for line in lines[:1]]
    prompts, broken = [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            prompts.append(_prompt(line, path.stem))
        except BrokenLineError as error:
            broken.append(f"line {number} {error}")
    if not prompts:
        why = f"; {broken[0]}" if broken else ""
        raise DraftscopeError(
            f"The prompt file '{path}' has no usable line{why}. Give one JSON object a line, with 'prompt' or 'turns'."
        )
    return prompts, [_skipped(path, len(prompts), broken)] if broken else []


def select(
    prompts: Sequence[Prompt], kinds: Sequence[str] = (), per_kind: int | None = None
) -> dict[str, list[Prompt]]:
    """The first `per_kind` prompts of each kind, in order. Raises `DraftscopeError` for an unknown kind."""
    by_kind: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        by_kind.setdefault(prompt.kind, []).append(prompt)
    for kind in kinds:
        if kind not in by_kind:
            raise DraftscopeError(f"There is no kind of text '{kind[:40]}'; choose from {', '.join(by_kind)[:300]}.")
    return {kind: by_kind[kind][:per_kind] for kind in kinds or by_kind}


def _skipped(path: Path, usable: int, broken: Sequence[str]) -> str:
    more = f"; and {len(broken) - SHOWN} more" if len(broken) > SHOWN else ""
    reasons = "; ".join(broken[:SHOWN])
    return f"{path.name}: {len(broken)} of {usable + len(broken)} lines were skipped: {reasons}{more}."


def _rows(path: Path) -> list[bytes]:
    """The rows of a Parquet file, each as a line of JSON."""
    if find_spec("pyarrow") is None:
        raise DraftscopeError("Parquet needs pyarrow; install it with: pip install 'draftscope[export]'")
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with one_sentence(f"The prompt file '{path}' cannot be read", "check the path"), ParquetFile(path) as opened:
            columns = [name for name in opened.schema_arrow.names if name in (*TEXTS, *REQUESTS, *KINDS)]
            groups = opened.metadata
            if sum(groups.row_group(number).total_byte_size for number in range(groups.num_row_groups)) > MAX_READ:
                raise DraftscopeError(
                    f"The prompt file '{path}' has more than {MAX_READ >> 20} MiB; give a part of it."
                )
            rows = opened.read(columns=columns).to_pylist()
    except ArrowException:
        raise DraftscopeError(f"The prompt file '{path}' is no Parquet; give JSON lines or Parquet.") from None
    return [json.dumps(row, default=str).encode() for row in rows]


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
    return Prompt(_kind(record, default_kind), _usable(_text(_request(record))))


def _request(record: dict[str, Any]) -> dict[str, Any]:
    """The record, or the request inside a line of a log."""
    if any(record.get(name) is not None for name in TEXTS):
        return record
    for value in map(record.get, REQUESTS):
        try:
            inner = json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            continue
        if isinstance(inner, dict):
            return inner
    return record


def _text(record: Mapping[str, Any]) -> str:
    field = next((name for name in TEXTS if record.get(name) is not None), None)
    if field is None:
        raise BrokenLineError(f"has none of the fields {', '.join(TEXTS)}")
    text = _plain(record[field])
    if text is None:
        raise BrokenLineError(f"has no text in '{field}'")
    extra = record.get("input") if field == "instruction" else None
    return f"{text}\n\n{extra}" if isinstance(extra, str) and extra.strip() else text


def _plain(value: Any) -> str | None:
    """A text, the first of several turns, or the first message by the user; None if there is none."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(part, str) for part in value):
        return str(value[0])
    message = next((part for part in value if isinstance(part, dict) and part.get("role") == "user"), None)
    return None if message is None else _content(message.get("content"))


def _content(content: Any) -> str | None:
    """The text of a message: its content, or the texts among its parts."""
    if isinstance(content, list):
        texts = [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
        return "".join(texts) if texts else None
    return content if isinstance(content, str) else None


def _usable(text: str) -> str:
    if text.startswith(MASKED):
        raise BrokenLineError("is a text of others that SPEED-Bench leaves out: fetch it with NVIDIA's prepare.py")
    try:
        admit({"prompt": text.strip()})
    except DraftscopeError as error:
        raise BrokenLineError(f"is left out: {str(error).removesuffix('.')}") from None
    return text


def _kind(record: Mapping[str, Any], default: str) -> str:
    named = next((record[name] for name in KINDS if isinstance(record.get(name), str) and record[name].strip()), None)
    kind = str(named or default).encode(errors="replace").decode()
    return " ".join(kind.split())[:40] or "prompts"
