"""Turns token ids into bytes and text, round by round, and finds where a text ends."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from tokenizers.pre_tokenizers import ByteLevel

Cut = Literal["eos", "stop", "length"]


def same_start(first: Sequence[object], second: Sequence[object]) -> int:
    """How many elements at their start are the same."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(first), len(second)))


class Pieces:
    """The bytes of every token, for byte-level BPE and for SentencePiece with byte fallback."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._special = set(tokenizer.all_special_ids)
        backend = getattr(tokenizer, "backend_tokenizer", None)
        self._byte_level = backend is not None and '"ByteLevel"' in backend.to_str()
        self.raw = lru_cache(maxsize=None)(self._raw)
        self.shown = lru_cache(maxsize=None)(self._shown)

    def is_special(self, token: int) -> bool:
        return token in self._special

    def _shown(self, token: int) -> str:
        """The token's bytes as latin-1 text, one character a byte, as stored in a trace."""
        return self.raw(token).decode("latin-1")

    def _raw(self, token: int) -> bytes:
        piece = self._tokenizer.convert_ids_to_tokens(token)
        if piece is None:  # a padding row of the embedding, which has no token
            return f"<{token}>".encode()
        if token in self._special:
            return str(piece).encode()
        if self._byte_level and all(char in _BYTES for char in piece):
            return bytes(_BYTES[char] for char in piece)
        if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
            return bytes([int(piece[3:5], 16)])
        return str(piece).replace("\u2581", " ").encode()


def _byte_table() -> dict[str, int]:
    """Byte-level BPE's character for each byte: printable latin-1 bytes are themselves, the others start at 256."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}
    assert set(table) == set(ByteLevel.alphabet())
    return table


_BYTES = _byte_table()


@dataclass(frozen=True)
class Ending:
    """What ends a text: an EOS id, a stop string (kept in the text, as transformers does), or a number of tokens."""

    eos: frozenset[int]
    stop: tuple[str, ...]
    limit: int


@dataclass(frozen=True)
class AddedText:
    """Result of adding one round's tokens: how many were emitted, the text they added, and why the rest was cut."""

    count: int
    delta: str
    cut: Cut | None


class Transcript:
    """The growing text of one sequence. Bytes that do not yet form a character wait for the next token."""

    def __init__(self, pieces: Pieces, ending: Ending) -> None:
        self.tokens: list[int] = []
        self.text = ""
        self._pieces = pieces
        self._ending = ending
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def follow(self, tokens: Sequence[int]) -> None:
        """Starts the text after these tokens: a character they begin is completed by the first tokens of `add`."""
        for token in tokens:
            self._decoder.decode(b"" if self._pieces.is_special(token) else self._pieces.raw(token))

    def add(self, tokens: list[int]) -> AddedText:
        """Adds tokens, up to and including the one that ends the text."""
        before = len(self.text)
        for count, token in enumerate(tokens, 1):
            cut = self._add(token)
            if cut is not None:
                self.text += self._decoder.decode(b"", final=True) if cut != "stop" else ""
                return AddedText(count, self.text[before:], cut)
        return AddedText(len(tokens), self.text[before:], None)

    def _add(self, token: int) -> Cut | None:
        self.tokens.append(token)
        if token in self._ending.eos:
            return "eos"
        start = len(self.text)
        if not self._pieces.is_special(token):
            self.text += self._decoder.decode(self._pieces.raw(token))
        if self._cut_at_stop(start):
            return "stop"
        return "length" if len(self.tokens) >= self._ending.limit else None

    def _cut_at_stop(self, start: int) -> bool:
        """Cuts the text after the first stop string completed by the text from `start` on; whether there was one."""
        ends = []
        for stop in self._ending.stop:
            at = self.text.find(stop, max(0, start - len(stop) + 1))
            if at >= 0:
                ends.append(at + len(stop))
        if ends:
            self.text = self.text[: min(ends)]
        return bool(ends)
