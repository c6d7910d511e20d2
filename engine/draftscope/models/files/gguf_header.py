"""Is everything there that the header of a GGUF file claims? Checked before the package `gguf` believes it.

That package keeps an object for every entry of every array, also for entries beyond the file's end, so that a few bytes
can claim all memory. Here nothing is kept: every count, length and offset is compared with the bytes that are left, and
with a bound that no real model comes near, since a large file may truly hold more entries than can be kept.
The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from pathlib import Path

from draftscope.base.errors import DraftscopeError, quoted

VERSIONS = (2, 3)
ALIGNMENT = 32  # bytes, where the file names no other
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of a number, by type of value
UINT32, STRING, ARRAY = 4, 8, 9  # types of values
MAX_KEYS, MAX_TENSORS = 10_000, 100_000  # real files have about 40 keys and 1,000 tensors
MAX_ENTRIES = 2_000_000  # of all arrays: 262,144 tokens with scores and types are 786,432
MAX_TEXT = 64 * 2**20  # bytes of all strings: a vocabulary of that size has about 10 MB
MAX_DIMENSIONS = 4
MIN_KEY, MIN_TENSOR = 13, 24  # bytes: name, type and value; name, dimensions, type and offset


def refuse_claims(path: Path) -> None:
    """Raises `DraftscopeError` for a GGUF file that claims more than it holds. It names what, how much, and what is
    there. Needs no memory and reads nothing but the header."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            raise damaged(path, "it is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _Header(path, data).check()


@dataclass
class _Header:
    """A header that is read from `at` on; `order` is '<' or '>', as struct writes it."""

    path: Path
    data: mmap.mmap
    at: int = 4  # behind the magic
    order: str = "<"
    entries: int = 0  # of arrays, so far
    text: int = 0  # bytes of strings, so far
    alignment: int = ALIGNMENT
    tensors: list[tuple[str, int, int]] = field(default_factory=list)  # name, offset, bytes

    def check(self) -> None:
        version = self._number("I", "the version")
        if version & 0xFFFF == 0:  # written in the other order of bytes
            self.order, version = ">", int.from_bytes(version.to_bytes(4, "little"), "big")
        if version not in VERSIONS:
            raise damaged(self.path, f"it has version {version} of the format; 2 and 3 can be read")
        tensors = self._count("the number of tensors", MIN_TENSOR, MAX_TENSORS)
        for _ in range(self._count("the number of keys", MIN_KEY, MAX_KEYS)):
            self._key()
        for index in range(tensors):
            self._tensor(f"tensor {index}")
        self._refuse_places()

    # The parts of a header.

    def _key(self) -> None:
        name = self._string("a key")
        kind = self._number("I", f"'{name}'")
        if kind == ARRAY:
            self._array(f"'{name}'")
        elif kind == STRING:
            self._string(f"'{name}'")
        elif name == "general.alignment" and kind == UINT32:
            self._align(self._number("I", f"'{name}'"))
        else:
            self._skip(f"'{name}'", self._size(kind, f"'{name}'"))

    def _align(self, wanted: int) -> None:
        if wanted == 0 or wanted & (wanted - 1):
            raise damaged(self.path, f"'general.alignment' is {wanted}, which is no power of two")
        self.alignment = wanted

    def _array(self, name: str) -> None:
        kind = self._number("I", name)
        least = 8 if kind == STRING else self._size(kind, name)
        count = self._count(f"{name}, an array,", least, MAX_ENTRIES - self.entries)
        self.entries += count
        if kind != STRING:
            self._skip(name, count * least)
            return
        for index in range(count):
            self._string(f"entry {index} of {name}")

    def _tensor(self, which: str) -> None:
        name = self._string(which)
        dimensions = self._number("I", f"tensor '{name}'")
        if dimensions > MAX_DIMENSIONS:
            raise damaged(self.path, f"tensor '{name}' has {dimensions} dimensions, more than {MAX_DIMENSIONS}")
        values = prod(self._number("Q", f"tensor '{name}'") for _ in range(dimensions))
        kind, offset = self._number("I", f"tensor '{name}'"), self._number("Q", f"tensor '{name}'")
        if kind not in _blocks():
            raise damaged(self.path, f"tensor '{name}' has type {kind}, which is not known")
        block, size = _blocks()[kind]
        self.tensors.append((name, offset, values * size // block))

    def _refuse_places(self) -> None:
        """Every tensor lies in the file, and together they are no larger than it: no two share their bytes."""
        start = -(-self.at // self.alignment) * self.alignment
        there = max(0, len(self.data) - start)
        for name, offset, size in self.tensors:
            end = offset + size
            if offset % self.alignment:
                raise damaged(self.path, f"tensor '{name}' begins at {offset:,}, no multiple of {self.alignment}")
            if end > there:
                raise damaged(self.path, f"tensor '{name}' claims bytes {offset:,} to {end:,}, and {there:,} are there")
        if (claimed := sum(size for _, _, size in self.tensors)) > there:
            raise damaged(self.path, f"its tensors claim {claimed:,} bytes together, and {there:,} are there")

    # What a part consists of.

    def _count(self, what: str, least: int, most: int) -> int:
        """A number of things of at least `least` bytes each."""
        count = self._number("Q", what)
        left = len(self.data) - self.at
        if count * least > left:
            raise damaged(self.path, f"{what} claims {count:,} entries, and {left:,} bytes are left for them")
        if count > most:
            raise damaged(self.path, f"{what} claims {count:,} entries, and at most {most:,} are read")
        return count

    def _string(self, what: str) -> str:
        """The string as a message repeats it."""
        length = self._number("Q", what)
        start = self.at
        self._skip(what, length)
        self.text += length
        if self.text > MAX_TEXT:
            raise damaged(self.path, f"{what} brings its strings to {self.text:,} bytes, and {MAX_TEXT:,} are read")
        return quoted(self.data[start : start + min(length, 80)].decode(errors="replace"))

    def _number(self, kind: str, what: str) -> int:
        """An unsigned number of 4 ('I') or 8 ('Q') bytes."""
        start = self.at
        self._skip(what, struct.calcsize(kind))
        return int(struct.unpack_from(f"{self.order}{kind}", self.data, start)[0])

    def _size(self, kind: int, name: str) -> int:
        if kind not in SIZES:
            raise damaged(self.path, f"{name} has type {kind}, which is not read here")
        return SIZES[kind]

    def _skip(self, what: str, count: int) -> None:
        left = len(self.data) - self.at
        if count > left:
            raise damaged(self.path, f"{what} claims {count:,} bytes, and {left:,} are left")
        self.at += count


def damaged(path: Path, reason: str) -> DraftscopeError:
    return DraftscopeError(f"'{path}' is damaged or incomplete ({reason}); download it again.")


@lru_cache(maxsize=1)
def _blocks() -> dict[int, tuple[int, int]]:
    """Type of tensor -> values and bytes of a block."""
    from gguf import GGML_QUANT_SIZES  # not at the top: not every program that uses the engine has it

    return {int(kind): sizes for kind, sizes in GGML_QUANT_SIZES.items()}
