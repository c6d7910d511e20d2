"""Between two tokenizers by way of text: the target's tokens as a draft with another tokenizer reads them, and the
draft's output as tokens of the target.

Universal assisted generation and string-level exact match re-encode text; token-level intersection pairs the tokens
that both vocabularies have (Timor et al. 2502.05202). The output is exact even if this conversion is wrong: tokens that
the target would not choose are guesses that it rejects.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from draftscope.base.text import Pieces

TAIL = 24  # characters before a continuation that are encoded with it: a tokenizer may treat a text's start specially


@dataclass(frozen=True)
class DraftText:
    """The target's text as the draft reads it: `ids` are the draft's tokens of `text`. `incomplete` are the bytes of an
    incomplete last character, which `text` cannot contain."""

    ids: list[int]
    text: str
    incomplete: bytes


class Realigner:
    """Converts tokens of the tokenizer `target` to those of the tokenizer `draft`, and back."""

    def __init__(self, target: Any, draft: Any) -> None:
        self._target, self._draft = target, draft
        self._target_pieces, self._draft_pieces = Pieces(target), Pieces(draft)
        self._bytes = {raw: token for raw, token in by_bytes(self._target_pieces, target).items() if len(raw) == 1}
        self._special = {self._target_pieces.raw(token): int(token) for token in target.all_special_ids}
        self._shared_special = self._special.keys() & {self._draft_pieces.raw(token) for token in draft.all_special_ids}
        self._target_ids, self._draft_ids = _encoder(target), _encoder(draft)
        adds = draft("a")["input_ids"][:1]
        self._begin = adds if adds == [draft.bos_token_id] else []

    def read(self, tokens: Sequence[int]) -> DraftText:
        """The target's `tokens` as text; special tokens that the draft does not have are left out."""
        raw = b"".join(self._visible_bytes(token) for token in tokens)
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        text = decoder.decode(raw)
        ids = self._draft_ids(text)
        begin = [] if ids[:1] == self._begin else self._begin
        return DraftText(begin + ids, text, decoder.getstate()[0])

    def write(self, drafted: Sequence[int], before: DraftText) -> list[int]:
        """The target's tokens for the draft's output after `before`, up to its first special token or invalid bytes.

        Empty if the output does not continue an incomplete character.
        """
        raw, end = self._bytes_until_special(drafted)
        if not raw.startswith(before.incomplete):
            return []
        rest = raw[len(before.incomplete) :]
        inside = next((i for i, byte in enumerate(rest) if byte & 0xC0 != 0x80), len(rest)) if before.incomplete else 0
        single = [self._bytes.get(rest[i : i + 1], -1) for i in range(inside)]
        if -1 in single:  # the target has no token for a byte inside a character
            return []
        text, whole = _valid(rest[inside:])
        return [
            *single,
            *self._encoded(text, "" if before.incomplete else before.text[-TAIL:]),
            *(end if whole else []),
        ]

    def shared(self) -> tuple[list[int], list[int]]:
        """The tokens that both have, as draft ids and target ids: tokens of the same bytes, and shared special
        tokens."""
        theirs = by_bytes(self._draft_pieces, self._draft)
        pairs = [
            (theirs[raw], token) for raw, token in by_bytes(self._target_pieces, self._target).items() if raw in theirs
        ]
        special = {self._draft_pieces.raw(token): int(token) for token in self._draft.all_special_ids}
        pairs += [(special[raw], self._special[raw]) for raw in sorted(self._shared_special)]
        return [draft for draft, _ in pairs], [target for _, target in pairs]

    def _visible_bytes(self, token: int) -> bytes:
        raw = self._target_pieces.raw(token)
        return raw if not self._target_pieces.is_special(token) or raw in self._shared_special else b""

    def _bytes_until_special(self, drafted: Sequence[int]) -> tuple[bytes, list[int]]:
        """Bytes up to the draft's first special token, and that token if the target has it too."""
        raw = b""
        for token in drafted:
            if self._draft_pieces.is_special(token):
                special = self._special.get(self._draft_pieces.raw(token))
                return raw, [special] if special is not None else []
            raw += self._draft_pieces.raw(token)
        return raw, []

    def _encoded(self, text: str, tail: str) -> list[int]:
        """The target's tokens of `text` after `tail` if a token boundary separates them, else of `text` alone."""
        if not text:
            return []
        before, both = self._target_ids(tail), self._target_ids(tail + text)
        return both[len(before) :] if both[: len(before)] == before else self._target_ids(text)


def _encoder(tokenizer: Any) -> Callable[[str], list[int]]:
    """What gives a text's tokens without special ones: the library `tokenizers` itself, where transformers calls it,
    which takes ten times as long for a short text."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return lambda text: list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
    backend.no_truncation()  # as in a call of transformers that asks for none
    backend.no_padding()
    return lambda text: list(backend.encode(text, add_special_tokens=False).ids)


def by_bytes(pieces: Pieces, tokenizer: Any) -> dict[bytes, int]:
    """Every token by its bytes, without special ones. Of two with the same bytes the later, which is no byte token."""
    tokens = sorted(int(token) for token in tokenizer.get_vocab().values())
    return {pieces.raw(token): token for token in tokens if not pieces.is_special(token)}


def _valid(raw: bytes) -> tuple[str, bool]:
    """The longest valid text at the start of `raw`, and whether that is all of it."""
    try:
        return raw.decode(), True
    except UnicodeDecodeError as error:
        return raw[: error.start].decode(), False
