"""The training text: read once, tokenised once, then dealt out in packed rows.

A corpus is a folder of `<domain>.train.txt.xz` and `<domain>.val.txt.xz` (or `.txt`),
documents separated by a line that holds only `<|endoftext|>`. Each domain becomes
one flat file of token ids; every document starts with `<|endoftext|>` there.

Rows are a pure function of (seed, step), so an interrupted run needs to remember only
its step. The domains are drawn by the square root of their size: large ones still
lead, and small ones (verse, code) are seen about twice as often as their share.
"""

from __future__ import annotations

import hashlib
import lzma
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tqdm import tqdm

from draftscope.errors import DraftscopeError
from draftscope.train.tokenizer import END, END_TEXT

BLOCK = 1024  # tokens dealt from one domain at a time: one row of 1,024 or two of 512
DECK = 64  # blocks per shuffled deck, in which each domain has its exact share

Tokens = NDArray[np.uint16]


def domain_files(folder: Path, split: str) -> dict[str, Path]:
    """The corpus file of every domain in `folder`, for `train` or `val`, by name."""
    if not folder.is_dir():
        raise DraftscopeError(f"There is no corpus folder {folder}: name one with --corpus.")
    found = {
        path.name.split(".")[0]: path
        for ending in (f".{split}.txt", f".{split}.txt.xz")
        for path in folder.glob(f"*{ending}")
    }
    if not found:
        raise DraftscopeError(f"{folder} holds no <domain>.{split}.txt.xz or .txt: nothing to read.")
    return dict(sorted(found.items()))


def documents(path: Path) -> Iterator[str]:
    """The documents of one corpus file, in order; separator lines are not part of them."""
    lines: list[str] = []
    some = False
    try:
        with lzma.open(path, "rt", encoding="utf-8", newline="") if path.suffix == ".xz" else path.open(
            encoding="utf-8", newline=""
        ) as text:
            for line in text:
                if line.rstrip("\r\n") != END_TEXT:
                    lines.append(line)
                    continue
                if document := "".join(lines).strip("\n"):
                    some = True
                    yield document
                lines = []
    except UnicodeDecodeError as error:
        raise DraftscopeError(f"{path} is not UTF-8 text ({error.reason}): convert it.") from error
    except (EOFError, lzma.LZMAError) as error:
        raise DraftscopeError(f"{path} is cut short or no xz file: fetch it again.") from error
    if document := "".join(lines).strip("\n"):
        some = True
        yield document
    if not some:
        raise DraftscopeError(f"{path} holds no text: remove it or fill it.")


def tokenised(path: Path, tokenizer: Tokenizer, cache: Path) -> Tokens:
    """The ids of one corpus file, from the cache when file and tokenizer are unchanged."""
    digest = hashlib.sha256(path.read_bytes() + tokenizer.to_str().encode()).hexdigest()[:16]
    cached = cache / f"{path.name.split('.txt')[0]}.{digest}.u16"
    if not cached.exists():
        cache.mkdir(parents=True, exist_ok=True)
        partial = cached.with_suffix(".partial")
        with partial.open("wb") as out:
            for document in tqdm(documents(path), desc=f"tokenise {path.name}", unit="doc", mininterval=2):
                ids = tokenizer.encode(document, add_special_tokens=False).ids
                out.write(np.asarray([END, *ids], dtype=np.uint16).tobytes())
        os.replace(partial, cached)
    return np.memmap(cached, dtype=np.uint16, mode="r")


@dataclass(frozen=True)
class Domain:
    """One kind of text: its ids and where its documents begin."""

    name: str
    tokens: Tokens
    starts: NDArray[np.int64] = field(repr=False)  # [documents]

    @classmethod
    def of(cls, name: str, tokens: Tokens) -> Domain:
        return cls(name, tokens, np.flatnonzero(tokens == END))

    def shuffled(self, seed: int, epoch: int) -> Tokens:
        """All documents of this domain, in the order of one epoch."""
        key = [seed, epoch, int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:4], "little")]
        order = np.random.default_rng(key).permutation(len(self.starts))
        ends = np.append(self.starts[1:], len(self.tokens))
        return np.concatenate([self.tokens[self.starts[i] : ends[i]] for i in order])


def load(folder: Path, split: str, tokenizer: Tokenizer, cache: Path) -> list[Domain]:
    """Every domain of a corpus folder, tokenised."""
    return [
        Domain.of(name, tokenised(path, tokenizer, cache))
        for name, path in domain_files(folder, split).items()
    ]


class Batches:
    """Packed rows for any step: `rows(step, length)` depends on the seed and its arguments only."""

    def __init__(self, domains: list[Domain], seed: int, tokens_per_step: int) -> None:
        short = [domain.name for domain in domains if len(domain.tokens) <= BLOCK]
        if short:
            raise DraftscopeError(f"Too little training text in {', '.join(short)}: {BLOCK + 1} tokens is the least.")
        self._domains = domains
        self._seed = seed
        self._blocks = tokens_per_step // BLOCK
        self.cards = deck_shares([len(domain.tokens) for domain in domains])
        self._epochs: dict[int, tuple[int, Tokens]] = {}

    def rows(self, step: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and next tokens, both [tokens_per_step / length, length]."""
        first = step * self._blocks
        blocks = np.stack([self._block(index) for index in range(first, first + self._blocks)])
        ids = torch.from_numpy(blocks.astype(np.int64))  # [blocks, BLOCK + 1]
        return ids[:, :-1].reshape(-1, length), ids[:, 1:].reshape(-1, length)

    def _block(self, index: int) -> Tokens:
        """Block `index` of the run: deal the deck it lies in, then count that domain's cards."""
        deck, place = divmod(index, DECK)
        dealt = np.random.default_rng([self._seed, deck]).permutation(np.repeat(np.arange(len(self.cards)), self.cards))
        which = int(dealt[place])
        turn = deck * self.cards[which] + int(np.count_nonzero(dealt[:place] == which))
        epoch, offset = divmod(turn, (len(self._domains[which].tokens) - 1) // BLOCK)
        if self._epochs.get(which, (-1,))[0] != epoch:
            self._epochs[which] = (epoch, self._domains[which].shuffled(self._seed, epoch))
        return self._epochs[which][1][offset * BLOCK : (offset + 1) * BLOCK + 1]


def deck_shares(sizes: list[int]) -> list[int]:
    """How many of a deck's cards each domain gets: by the root of its size, one at least."""
    roots = np.sqrt(np.asarray(sizes, dtype=np.float64))
    exact = roots / roots.sum() * DECK
    cards = np.maximum(1, np.floor(exact)).astype(int)
    for which in np.argsort(cards - exact)[: max(0, DECK - int(cards.sum()))]:
        cards[which] += 1
    while cards.sum() > DECK:
        cards[np.argmax(cards)] -= 1
    return [int(count) for count in cards]
