"""From token ids to bytes and text, one round at a time; and where a text ends."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from tokenizers.pre_tokenizers import ByteLevel

Cut = Literal["eos", "stop", "length"]


class Pieces:
    """The bytes of every token of a tokenizer: byte-level BPE and SentencePiece with byte fallback."""

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
        """The token's bytes as text in which every character is one byte (latin-1), as a trace carries them."""
        return self.raw(token).decode("latin-1")

    def _raw(self, token: int) -> bytes:
        piece = self._tokenizer.convert_ids_to_tokens(token)
        if piece is None:  # a padded embedding row without a token
            return f"<{token}>".encode()
        if token in self._special:
            return str(piece).encode()
        if self._byte_level and all(char in _BYTES for char in piece):
            return bytes(_BYTES[char] for char in piece)
        if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
            return bytes([int(piece[3:5], 16)])
        return str(piece).replace("\u2581", " ").encode()


def _byte_table() -> dict[str, int]:
    """The printable stand-ins of byte-level BPE: printable latin-1 bytes are themselves, the others follow from 256."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    table = {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}
    assert set(table) == set(ByteLevel.alphabet())
    return table


_BYTES = _byte_table()


@dataclass(frozen=True)
class Ending:
    """What ends a text: any of the EOS ids, any stop string (kept, as transformers does), or a number of tokens."""

    eos: frozenset[int]
    stop: tuple[str, ...]
    limit: int


@dataclass(frozen=True)
class Fed:
    """What became of the tokens of one round: how many were emitted, the text they added, and why the rest was cut."""

    count: int
    delta: str
    cut: Cut | None


class Transcript:
    """The text of one sequence as it grows. Bytes that do not yet make a character wait for the next token."""

    def __init__(self, pieces: Pieces, ending: Ending) -> None:
        self.tokens: list[int] = []
        self.text = ""
        self._pieces = pieces
        self._ending = ending
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def follow(self, tokens: Sequence[int]) -> None:
        """What the text comes after: a character that these tokens begin is ended by the first that are fed."""
        for token in tokens:
            self._decoder.decode(b"" if self._pieces.is_special(token) else self._pieces.raw(token))

    def feed(self, tokens: list[int]) -> Fed:
        """Adds tokens up to and including the one that ends the text."""
        before = len(self.text)
        for count, token in enumerate(tokens, 1):
            cut = self._add(token)
            if cut is not None:
                self.text += self._decoder.decode(b"", final=True) if cut != "stop" else ""
                return Fed(count, self.text[before:], cut)
        return Fed(len(tokens), self.text[before:], None)

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
        """Looks for a stop string that the text from `start` on completes, and cuts right behind the first."""
        ends = []
        for stop in self._ending.stop:
            at = self.text.find(stop, max(0, start - len(stop) + 1))
            if at >= 0:
                ends.append(at + len(stop))
        if ends:
            self.text = self.text[: min(ends)]
        return bool(ends)
