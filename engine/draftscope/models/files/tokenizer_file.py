"""A tokenizer's file is tried where it can end nothing but the process that tries it.

The library `tokenizers` ends a program, rather than raising an exception, at some damage (a table of normalised
characters that points beyond itself) and where a file makes of a text more than fits in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import pre_tokenizers
from transformers import AutoTokenizer

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.models.files import hub
from draftscope.models.files.bounded import BOUNDED, RefusedError
from draftscope.models.files.contents import refuse_size
from draftscope.models.files.gguf_file import GgufFile
from draftscope.models.files.pretrained import loaded

NAME = "tokenizer.json"
SECONDS = 60.0  # for a text of 17,000 characters of many scripts; real tokenizers take less than six
PANIC = "PanicException"  # of Rust, which is no subclass of Exception and which no module exports


def refuse_tokenizer(source: str, revision: str | None, online: bool) -> None:
    """Raises `DraftscopeError` for a tokenizer.json, in a folder or on the hub, that cannot be used within bounds."""
    path = Path(source) / NAME if Path(source).is_dir() else hub.file(source, NAME, revision, online)
    if path is None or not path.is_file() or path.is_relative_to(assets()):
        return
    refuse_size(path)
    try:
        BOUNDED.ask("try_tokenizer", SECONDS, path=str(path.resolve()))
    except RefusedError as error:
        raise DraftscopeError(_sentence(source, error)) from None


@contextmanager
def without_panic(source: str) -> Iterator[None]:
    """Raises `DraftscopeError` where the library panics on a text that was not tried."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        raise DraftscopeError(_sentence(source, error)) from None


def _sentence(source: str, error: BaseException) -> str:
    reason = " ".join(str(error).split())[:160].rstrip(".")
    return f"The tokenizer of '{source}' cannot be used ({reason}); download or write it again."


# llama.cpp's names of the ways to split text, beside those that transformers knows.
GPT2 = ("gpt-2", "phi-2")  # as GPT-2 does, which is transformers' default for other names
DIGITS = ("smollm", "starcoder", "refact", "command-r", "codeshell")  # every digit alone, then as GPT-2
WHOLE = ("llama3", "llama-v3", "llama-bpe", "tekken")  # a word that is a token needs no merges


def tokenizer_of(file: GgufFile) -> Any:
    """Raises DraftscopeError if the file's text would be split in another way than its model was trained with."""
    tokenizer = loaded(AutoTokenizer, str(file.path.parent), gguf_file=file.path.name, shown=str(file.path))
    pre = file.pre_tokenizer
    if not _splits_bytes(tokenizer):
        return tokenizer  # SentencePiece: merges alone decide
    if pre in DIGITS:
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    elif pre not in GPT2 and pre not in _known_to_transformers():
        raise DraftscopeError(
            f"'{file.path}' splits text in the way '{pre or 'default'}', which is not known here; name the original "
            "checkpoint, a folder or hub id with safetensors."
        )
    tokenizer.backend_tokenizer.model.ignore_merges = pre in WHOLE
    return tokenizer


def _splits_bytes(tokenizer: Any) -> bool:
    return "ByteLevel" in str(tokenizer.backend_tokenizer.pre_tokenizer)


def _known_to_transformers() -> frozenset[str]:
    """The names of its table, which is no public one; without it these files are refused."""
    try:
        from transformers.integrations.gguf import gguf_tokenizer_mapping
    except ImportError:
        return frozenset()
    return frozenset(getattr(gguf_tokenizer_mapping, "GGUF_PRE_TOKENIZER_SPLITS", ()))
