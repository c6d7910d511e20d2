"""The tokenizer of a GGUF file. It names how text is split before merges; transformers does not know every name."""

from __future__ import annotations

from typing import Any

from tokenizers import pre_tokenizers
from transformers import AutoTokenizer

from draftscope.base.errors import DraftscopeError
from draftscope.models.files.gguf_file import GgufFile
from draftscope.models.files.pretrained import loaded

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
