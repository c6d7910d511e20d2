"""The header of a GGUF file, read once: its values, and where its tensors lie.

A header is believed no further than the file's size: every count, length and offset is compared with the bytes that are
left, and with a bound that no real model comes near, since a large file may truly hold more entries than can be kept.
The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from draftscope.base.errors import DraftscopeError, quoted

VERSIONS = (2, 3)
ALIGNMENT = 32  # bytes, where the file names no other
NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}  # by type of value
UINT32, STRING, ARRAY = 4, 8, 9  # types of values
MAX_KEYS, MAX_TENSORS = 10_000, 100_000  # real files have about 40 keys and 1,000 tensors
MAX_ENTRIES = 2_000_000  # of all arrays: 262,144 tokens with scores and types are 786,432
MAX_TEXT = 64 * 2**20  # bytes of all strings: a vocabulary of that size has about 10 MB
MAX_DIMENSIONS = 4
MIN_KEY, MIN_TENSOR = 13, 24  # bytes: name, type and value; name, dimensions, type and offset

Value = str | int | float | list[str] | list[int] | list[float]


class TensorPlace(NamedTuple):
    """A tensor in a file: its shape, outermost dimension first, its type as ggml counts them, and its bytes."""

    name: str
    shape: tuple[int, ...]
    kind: int
    start: int
    size: int


class Header(NamedTuple):
    values: dict[str, Value]
    tensors: list[TensorPlace]


def read_header(path: Path) -> Header:
    """The header of a GGUF file. Raises `DraftscopeError` for one that claims more than the file holds; it names what,
    how much, and what is there."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            raise damaged(path, "it is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(path, data).read()


@dataclass
class _Reader:
    """A header that is read from `at` on; `order` is '<' or '>', as struct writes it."""

    path: Path
    data: mmap.mmap
    at: int = 4  # behind the magic
    order: str = "<"
    entries: int = 0  # of arrays, so far
    text: int = 0  # bytes of strings, so far
    alignment: int = ALIGNMENT
    values: dict[str, Value] = field(default_factory=dict)
    tensors: list[TensorPlace] = field(default_factory=list)  # counted from the end of the header

    def read(self) -> Header:
        version = int(self._number("I", "the version"))
        if version & 0xFFFF == 0:  # written in the other order of bytes
            self.order, version = ">", int.from_bytes(version.to_bytes(4, "little"), "big")
        if version not in VERSIONS:
            raise damaged(self.path, f"it has version {version} of the format; 2 and 3 can be read")
        tensors = self._count("the number of tensors", MIN_TENSOR, MAX_TENSORS)
        for _ in range(self._count("the number of keys", MIN_KEY, MAX_KEYS)):
            self._key()
        for index in range(tensors):
            self._tensor(f"tensor {index}")
        if self.order != "<":
            raise DraftscopeError(
                f"'{self.path}' is written for machines with another order of bytes; convert it again."
            )
        start = -(-self.at // self.alignment) * self.alignment
        self._refuse_places(max(0, len(self.data) - start))
        return Header(self.values, [tensor._replace(start=start + tensor.start) for tensor in self.tensors])

    # The parts of a header.

    def _key(self) -> None:
        name = self._string("a key")
        what = f"'{quoted(name[:80])}'"
        kind = int(self._number("I", what))
        if kind == ARRAY:
            self.values[name] = self._array(what)
        elif kind == STRING:
            self.values[name] = self._string(what)
        else:
            value = self.values[name] = self._number(self._letter(kind, what), what)
            if name == "general.alignment" and kind == UINT32:
                self._align(int(value))

    def _align(self, wanted: int) -> None:
        if wanted == 0 or wanted & (wanted - 1):
            raise damaged(self.path, f"'general.alignment' is {wanted}, which is no power of two")
        self.alignment = wanted

    def _array(self, name: str) -> Value:
        kind = int(self._number("I", name))
        letter = "" if kind == STRING else self._letter(kind, name)
        count = self._count(f"{name}, an array,", struct.calcsize(f"={letter}") or 8, MAX_ENTRIES - self.entries)
        self.entries += count
        if kind == STRING:
            return [self._string(name, index) for index in range(count)]
        numbers = np.dtype(f"{self.order}{letter}")
        start = self.at
        self._skip(name, count * numbers.itemsize)
        return np.frombuffer(self.data[start : self.at], numbers).tolist()  # type: ignore[no-any-return]

    def _tensor(self, which: str) -> None:
        name = self._string(which)
        what = f"tensor '{quoted(name[:80])}'"
        dimensions = int(self._number("I", what))
        if dimensions > MAX_DIMENSIONS:
            raise damaged(self.path, f"{what} has {dimensions} dimensions, more than {MAX_DIMENSIONS}")
        shape = tuple(int(self._number("Q", what)) for _ in range(dimensions))
        kind, offset = int(self._number("I", what)), int(self._number("Q", what))
        if kind not in blocks():
            raise damaged(self.path, f"{what} has type {kind}, which is not known")
        block, size = blocks()[kind]
        if dimensions and shape[0] % block:
            raise damaged(self.path, f"{what} has rows of {shape[0]:,} values, no multiple of {block}")
        self.tensors.append(TensorPlace(name, shape[::-1], kind, offset, prod(shape) * size // block))

    def _refuse_places(self, there: int) -> None:
        """Every tensor lies in the `there` bytes behind the header, and together they are no larger: no two share their
        bytes."""
        for name, _, _, start, size in self.tensors:
            what = f"tensor '{quoted(name[:80])}'"
            if start % self.alignment:
                raise damaged(self.path, f"{what} begins at {start:,}, no multiple of {self.alignment}")
            if start + size > there:
                raise damaged(self.path, f"{what} claims bytes {start:,} to {start + size:,}, and {there:,} are there")
        if (claimed := sum(tensor.size for tensor in self.tensors)) > there:
            raise damaged(self.path, f"its tensors claim {claimed:,} bytes together, and {there:,} are there")

    # What a part consists of.

    def _count(self, what: str, least: int, most: int) -> int:
        """A number of things of at least `least` bytes each."""
        count = int(self._number("Q", what))
        left = len(self.data) - self.at
        if count * least > left:
            raise damaged(self.path, f"{what} claims {count:,} entries, and {left:,} bytes are left for them")
        if count > most:
            raise damaged(self.path, f"{what} claims {count:,} entries, and at most {most:,} are read")
        return count

    def _string(self, what: str, entry: int | None = None) -> str:
        """A text, or an entry of an array of texts."""
        start = self.at + 8
        length = int.from_bytes(self.data[self.at : start], "little" if self.order == "<" else "big")
        self.at, self.text = start + length, self.text + length
        if self.at > len(self.data) or self.text > MAX_TEXT:
            self._refuse_text(what if entry is None else f"entry {entry} of {what}", length, start)
        try:
            return self.data[start : self.at].decode()
        except UnicodeDecodeError:
            raise damaged(self.path, f"{what} holds bytes that are no text") from None

    def _refuse_text(self, what: str, length: int, start: int) -> None:
        self.at = start - 8
        self._skip(what, 8)
        self._skip(what, length)
        raise damaged(self.path, f"{what} brings its strings to {self.text:,} bytes, and {MAX_TEXT:,} are read")

    def _number(self, letter: str, what: str) -> int | float:
        """A number by `struct`'s letter."""
        start = self.at
        self._skip(what, struct.calcsize(f"={letter}"))
        value: int | float = struct.unpack_from(f"{self.order}{letter}", self.data, start)[0]
        return value

    def _letter(self, kind: int, name: str) -> str:
        if kind not in NUMBERS:
            raise damaged(self.path, f"{name} has type {kind}, which is not read here")
        return NUMBERS[kind]

    def _skip(self, what: str, count: int) -> None:
        left = len(self.data) - self.at
        if count > left:
            raise damaged(self.path, f"{what} claims {count:,} bytes, and {left:,} are left")
        self.at += count


def damaged(path: Path, reason: str) -> DraftscopeError:
    return DraftscopeError(f"'{path}' is damaged or incomplete ({reason}); download it again.")


@lru_cache(maxsize=1)
def blocks() -> dict[int, tuple[int, int]]:
    """Type of tensor -> values and bytes of a block."""
    from gguf import GGML_QUANT_SIZES  # not at the top: not every program that uses the engine has it

    return {int(kind): sizes for kind, sizes in GGML_QUANT_SIZES.items()}
