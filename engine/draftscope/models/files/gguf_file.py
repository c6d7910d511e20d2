"""What a GGUF file, or a file in several parts, holds: llama.cpp's format, read once, its tensors mapped from the disk.

Only architectures are read whose logits are tested.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from draftscope.base.errors import DraftscopeError
from draftscope.models.files.gguf_header import Value, damaged, read_header
from draftscope.models.files.gguf_parts import parts_of
from draftscope.models.files.gguf_tensor import StoredTensor

MAGIC = b"GGUF"
ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma2", "gemma3")
FLOATS = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}  # tensor type -> dtype
WIDENED = "bfloat16"  # the dtype that quantised weights are converted to
WIDENED_TO = " widened to "  # in the words about weights
READ_AS_STORED = ", read as they are stored"
ROTARY_FACTORS = "rope_freqs.weight"
PROJECTORS, ADAPTER = ("mmproj", "clip"), "adapter"  # kinds of files that are no language model
ENDS = ("eos", "eot", "eom")  # tokens that end a text, a turn or a message, where a file names them
# Tokens that end a text or a turn in every model that has them: many files name only one of theirs.
END_TEXTS = (
    "<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
    "< EOT >", "_<EOT>", "[EOT]", "[EOS]", "<end_of_utterance>", "<｜end▁of▁sentence｜>",
)  # fmt: skip


@dataclass(frozen=True)
class GgufFile:
    """A readable file by its first part; `values` are those of its header, `tensors` lie in all parts, by llama.cpp's
    names."""

    path: Path
    values: Mapping[str, Value]
    tensors: Mapping[str, StoredTensor]

    @property
    def architecture(self) -> str:
        return self.text("general.architecture")

    @cached_property
    def stored(self) -> Counter[str]:
        """The number of weights by tensor type."""
        stored: Counter[str] = Counter()
        for name, tensor in self.tensors.items():
            if name != ROTARY_FACTORS:
                stored[tensor.kind] += tensor.values
        return stored

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The ids of tokens that end a text."""
        named = [self.number(f"tokenizer.ggml.{end}_token_id") for end in ENDS]
        by_text = [index for index, token in enumerate(self.texts("tokenizer.ggml.tokens")) if token in END_TEXTS]
        return tuple(dict.fromkeys([int(end) for end in named if end is not None] + by_text))

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

    # Values of the header. A value of another type than its key has is damage.

    def shape(self, key: str) -> float | None:
        """A number under the architecture's name; None if the file does not have it."""
        return self.number(f"{self.architecture}.{key}")

    def number(self, key: str) -> float | None:
        value = self.values.get(key)
        if value is None or isinstance(value, int | float):
            return value
        raise self._other_type(key)

    def text(self, key: str) -> str:
        """Empty if the file does not have it."""
        value = self.values.get(key, "")
        if isinstance(value, str):
            return value
        raise self._other_type(key)

    def texts(self, key: str) -> list[str]:
        """Empty if the file does not have them."""
        return [entry for entry in self._entries(key) if isinstance(entry, str)]

    def numbers(self, key: str) -> list[float]:
        """Empty if the file does not have them."""
        return [entry for entry in self._entries(key) if not isinstance(entry, str)]

    def _entries(self, key: str) -> Sequence[str | float]:
        value = self.values.get(key, [])
        if isinstance(value, list):
            return value
        raise self._other_type(key)

    def _other_type(self, key: str) -> DraftscopeError:
        return damaged(self.path, f"'{key}' has another type than it should")


def was_widened(weights: str) -> bool:
    """Whether these weights, in words, were widened from fewer bits."""
    return WIDENED_TO in weights and READ_AS_STORED not in weights


def as_stored(weights: str, widened: Sequence[str] = ()) -> str:
    """Widened weights in words, if a forward reads them as they were stored, but for some types."""
    others = f", {' and '.join(widened)}{WIDENED_TO}{WIDENED}" if widened else ""
    return f"{weights.partition(WIDENED_TO)[0]}{READ_AS_STORED}{others}"


def is_gguf(path: Path) -> bool:
    """Whether this is a GGUF file by its name or its first bytes."""
    if path.suffix.lower() == ".gguf":
        return True
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def sha256(path: Path) -> str:
    """Of the file, or of all its parts together; read once in a process as long as they stay as they are. Raises
    DraftscopeError if one cannot be read."""
    parts = parts_of(path)
    try:
        stats = [part.stat() for part in parts]
        return _sha256(tuple(parts), tuple((stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in stats))
    except FileNotFoundError:
        raise DraftscopeError(f"There is no file '{path}'; check the path.") from None
    except OSError as error:
        raise DraftscopeError(f"'{path}' cannot be read ({error.strerror}); check the path.") from None


@lru_cache(maxsize=32)
def _sha256(parts: tuple[Path, ...], _as_they_are: tuple[tuple[int, int, int], ...]) -> str:
    sha = hashlib.sha256()
    for part in parts:
        with part.open("rb") as file:
            hashlib.file_digest(file, lambda: sha)
    return sha.hexdigest()


def inspected(path: Path) -> GgufFile:
    """What the file and its other parts hold. Raises DraftscopeError for a file that is damaged, or that cannot be read
    exactly."""
    values: dict[str, Value] = {}
    tensors: dict[str, StoredTensor] = {}
    parts = parts_of(path)
    for part in parts:
        _refuse_other(part)
        header = read_header(part)
        values = values or header.values
        tensors |= {place.name: StoredTensor.at(part, place) for place in header.tensors}
    file = GgufFile(path, values, tensors)
    if (count := int(file.number("split.count") or 1)) != len(parts):
        raise DraftscopeError(
            f"'{path}' is one of {count} parts, and its name does not say so; call the first '{path.stem}-00001-of-"
            f"{count:05}.gguf', the others alike."
        )
    _refuse(file)
    return file


def _refuse_other(path: Path) -> None:
    try:
        with path.open("rb") as file:
            start = file.read(len(MAGIC))
    except FileNotFoundError:
        raise DraftscopeError(f"There is no file '{path}'; check the path.") from None
    if start != MAGIC:
        raise DraftscopeError(
            f"'{path}' is not a GGUF file (it begins with {start!r}); name a GGUF file, or a folder written by "
            "save_pretrained."
        )


def _refuse(file: GgufFile) -> None:
    """Refuses what is no language model that can be read."""
    path, architecture = file.path, file.architecture
    if architecture in PROJECTORS or file.text("general.type") in PROJECTORS:
        raise DraftscopeError(
            f"'{path}' is the part of a model that reads images or sound (mmproj); name the file of its language model."
        )
    if file.text("general.type") == ADAPTER:
        raise DraftscopeError(
            f"'{path}' is an adapter (LoRA), not a model; merge it by 'llama-export-lora', and name the "
            "file that this writes."
        )
    if architecture not in ARCHITECTURES:
        raise DraftscopeError(
            f"'{path}' has the architecture '{architecture}', and GGUF files are read only for "
            f"{', '.join(ARCHITECTURES)}; name the original checkpoint, a folder or hub id with safetensors."
        )
    if (there := int(file.number("split.tensors.count") or len(file.tensors))) != len(file.tensors):
        raise damaged(path, f"its parts hold {len(file.tensors):,} tensors of {there:,}")
    if (layers := int(file.shape("block_count") or 0)) > len(file.tensors):  # each would become a module
        raise damaged(path, f"it claims {layers:,} layers and holds {len(file.tensors):,} tensors")
    if file.shape("attention.head_count_kv") is None:
        raise DraftscopeError(f"'{path}' does not say how many key-value heads it has; convert the model again.")
    if not file.texts("tokenizer.ggml.tokens"):
        raise DraftscopeError(f"'{path}' has no tokenizer; name a file that has one.")
