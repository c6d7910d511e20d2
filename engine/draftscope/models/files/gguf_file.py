"""What a GGUF file holds, checked before it is converted: llama.cpp's format, read with the package `gguf`.

Only architectures are read whose converted logits are tested. What transformers' GGUF reader leaves out without a word
is refused: scaled rotary angles here, biases and experts by their number of values in `loading/converted.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftscope.base.errors import DraftscopeError

MAGIC = b"GGUF"
ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma2", "gemma3")
FLOATS = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}  # tensor type -> dtype
WIDENED = "bfloat16"  # the dtype that quantised weights are converted to
WIDENED_TO = " widened to "  # in the words about weights
ROTARY_FACTORS = "rope_freqs.weight"
ENDS = ("eos", "eot", "eom")  # tokens that end a text, a turn or a message
DAMAGED = (ValueError, IndexError, KeyError, OverflowError, TypeError, MemoryError)  # what `gguf` raises


@dataclass(frozen=True)
class GgufFile:
    """A readable file. `stored` counts the values by tensor type; `ends` are the ids of tokens that end a text."""

    path: Path
    architecture: str
    stored: Counter[str]
    pre_tokenizer: str
    ends: tuple[int, ...]
    head_width: int | None  # None if the file does not say it
    rotary_factors: tuple[float, ...]  # by which Llama 3.1 divides its rotary frequencies; empty for other models

    @property
    def quantized(self) -> list[str]:
        """The quantised tensor types, the most frequent first."""
        return [kind for kind, _ in self.stored.most_common() if kind not in FLOATS]

    @property
    def dtype(self) -> str:
        """The dtype that its weights are converted to: bfloat16 if any are quantised, else the most frequent one."""
        return WIDENED if self.quantized else FLOATS[self.stored.most_common(1)[0][0]]

    @property
    def weights(self) -> str:
        """The weights in words."""
        if not self.quantized:
            return f"{self.dtype} weights of a GGUF file"
        bits = re.search(r"\d+", self.quantized[0])  # Q4_1, IQ3_S, MXFP4: the first number in the name
        width = f"{bits[0]}-bit" if bits else "quantised"
        return f"{width} weights ({', '.join(self.quantized)}){WIDENED_TO}{self.dtype}"


def was_widened(weights: str) -> bool:
    """Whether these weights, in words, were widened from fewer bits."""
    return WIDENED_TO in weights


def as_stored(weights: str) -> str:
    """Widened weights in words, if a forward reads them as they were stored."""
    return f"{weights.partition(WIDENED_TO)[0]}, read as they are stored"


def is_gguf(path: Path) -> bool:
    """Whether this is a GGUF file by its name or its first bytes."""
    if path.suffix.lower() == ".gguf":
        return True
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def sha256(path: Path) -> str:
    """Raises DraftscopeError if the file cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise DraftscopeError(f"There is no file '{path}'; check the path.") from None
    except OSError as error:
        raise DraftscopeError(f"'{path}' cannot be read ({error.strerror}); check the path.") from None


def inspected(path: Path) -> GgufFile:
    """What the file holds. Raises DraftscopeError for a file that is damaged, or that cannot be converted exactly."""
    with path.open("rb") as file:
        start = file.read(len(MAGIC))
    if start != MAGIC:
        raise DraftscopeError(
            f"'{path}' is not a GGUF file (it begins with {start!r}); name a GGUF file, or a folder written by "
            "save_pretrained."
        )
    reader = _read(path)
    try:
        return _described(path, reader)
    except DAMAGED as error:  # a value of another type than its key has
        raise _damaged(path, error) from None


def _described(path: Path, reader: Any) -> GgufFile:
    architecture = str(_value(reader, "general.architecture"))
    _refuse(path, reader, architecture)
    layers, tensors = int(_value(reader, f"{architecture}.block_count") or 0), len(reader.tensors)
    if layers > tensors:  # each would become a module
        raise ValueError(f"it claims {layers:,} layers and holds {tensors:,} tensors")
    ends = [_value(reader, f"tokenizer.ggml.{end}_token_id") for end in ENDS]
    width = _value(reader, f"{architecture}.attention.key_length")
    return GgufFile(
        path=path,
        architecture=architecture,
        stored=_stored(reader),
        pre_tokenizer=str(_value(reader, "tokenizer.ggml.pre") or ""),
        ends=tuple(dict.fromkeys(int(end) for end in ends if end is not None)),
        head_width=None if width is None else int(width),
        rotary_factors=tuple(
            float(factor)
            for tensor in reader.tensors
            if tensor.name == ROTARY_FACTORS
            for factor in tensor.data.reshape(-1)
        ),
    )


def _read(path: Path) -> Any:
    from gguf import GGUFReader

    from draftscope.models.files.gguf_header import refuse_claims

    refuse_claims(path)
    try:
        return GGUFReader(path)
    except DAMAGED as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> DraftscopeError:
    from draftscope.models.files.gguf_header import damaged

    return damaged(path, str(error).split("\n")[0][:120].rstrip("."))


def _value(reader: Any, key: str) -> Any:
    """A metadata value; None if the file does not have it."""
    field = reader.get_field(key)
    return None if field is None else field.contents()


def _stored(reader: Any) -> Counter[str]:
    stored: Counter[str] = Counter()
    for tensor in reader.tensors:
        if tensor.name != ROTARY_FACTORS:
            stored[tensor.tensor_type.name] += int(tensor.n_elements)
    return stored


def _refuse(path: Path, reader: Any, architecture: str) -> None:
    """Refuses what would be converted to another model than the file holds."""
    if architecture not in ARCHITECTURES:
        raise DraftscopeError(
            f"'{path}' has the architecture '{architecture}', and GGUF files are read only for "
            f"{', '.join(ARCHITECTURES)}; name the original checkpoint, a folder or hub id with safetensors."
        )
    if (parts := int(_value(reader, "split.count") or 1)) > 1:
        raise DraftscopeError(f"'{path}' is one of {parts} parts; merge them with 'llama-gguf-split --merge'.")
    scaling = _value(reader, f"{architecture}.rope.scaling.type") or "none"
    if scaling != "none":
        raise DraftscopeError(
            f"'{path}' scales its rotary angles ('{scaling}'), which is not read from GGUF files; name the original "
            "checkpoint, a folder or hub id with safetensors."
        )
    if _value(reader, f"{architecture}.attention.head_count_kv") is None:
        raise DraftscopeError(f"'{path}' does not say how many key-value heads it has; convert the model again.")
    if _value(reader, "tokenizer.ggml.tokens") is None:
        raise DraftscopeError(f"'{path}' has no tokenizer; name a file that has one.")
