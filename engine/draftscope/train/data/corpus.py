"""The training text, read and tokenised once.

A corpus is a folder of `<domain>.train.txt.xz` and `<domain>.val.txt.xz` (or `.txt`). Documents are separated by a line
that contains only `<|endoftext|>`. Each file becomes one flat array of token ids in which every document starts with
`<|endoftext|>`.

The tokenizer is a byte-level BPE of 4,096 entries with single digits, trained on all domains equally. It is small on
purpose: at width 384 the embedding is a tenth of the target, and a softmax over 4,096 entries keeps the one-layer draft
cheap. `tokenizer(text)` prepends one `<|endoftext|>`, because every training document starts with it.
"""

from __future__ import annotations

import hashlib
import lzma
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from draftscope.base.errors import DraftscopeError

END_TEXT, END = "<|endoftext|>", 0  # starts every document and ends generated text
PAD_TEXT, PAD = "<|pad|>", 1
BLOCK = 1024  # the longest row; every domain needs at least one
ROW = 512  # the usual row, also of held-out text

Tokens = NDArray[np.uint16]


def train_tokenizer(texts: Iterable[str], entries: int) -> Tokenizer:
    """Trains a tokenizer of `entries` entries on `texts`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=entries,
        special_tokens=[END_TEXT, PAD_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if (size := tokenizer.get_vocab_size()) < entries:
        raise DraftscopeError(f"Too little text for a tokenizer of {entries} entries (found {size}): add more text.")
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{END_TEXT} $A", pair=f"{END_TEXT} $A $B", special_tokens=[(END_TEXT, END)]
    )
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path, positions: int) -> None:
    """Writes a folder that `AutoTokenizer.from_pretrained` loads."""
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END_TEXT,
        eos_token=END_TEXT,
        pad_token=PAD_TEXT,
        model_max_length=positions,
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a model folder, as the tokenizers library loads it."""
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


@dataclass(frozen=True)
class Domain:
    """One kind of text: its token ids and the positions where documents start."""

    name: str
    tokens: Tokens
    starts: NDArray[np.int64] = field(repr=False)  # [documents]

    @classmethod
    def of(cls, name: str, tokens: Tokens) -> Domain:
        return cls(name, tokens, np.flatnonzero(tokens == END))

    def shuffled(self, seed: int, epoch: int) -> Tokens:
        """All documents of this domain in the random order of one epoch."""
        name = int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:4], "little")
        order = np.random.default_rng([seed, epoch, name]).permutation(len(self.starts))
        ends = np.append(self.starts[1:], len(self.tokens))
        return np.concatenate([self.tokens[self.starts[i] : ends[i]] for i in order])


@dataclass(frozen=True)
class Texts:
    """The texts a model is trained and evaluated on."""

    train: list[Domain]
    val: list[Domain]
    tokenizer: Tokenizer

    def __post_init__(self) -> None:
        for domains, least, use in ((self.train, BLOCK + 1, "training"), (self.val, ROW + 1, "held-out")):
            short = [domain.name for domain in domains if len(domain.tokens) < least]
            if short:
                raise DraftscopeError(
                    f"Too little {use} text in {', '.join(short)}: add text, at least {least} tokens are needed."
                )

    @property
    def size(self) -> int:
        """Tokens to train on, each counted once."""
        return sum(len(domain.tokens) for domain in self.train)


def read_corpus(folder: Path, tokenizer: Tokenizer, cache: Path) -> Texts:
    """All domains of a corpus folder, tokenised."""
    train, val = (
        [Domain.of(name, _tokenised(path, tokenizer, cache)) for name, path in domain_files(folder, split).items()]
        for split in ("train", "val")
    )
    return Texts(train, val, tokenizer)


def domain_files(folder: Path, split: str) -> dict[str, Path]:
    """The corpus files in `folder` for the split `train` or `val`, by domain."""
    if not folder.is_dir():
        raise DraftscopeError(f"There is no corpus folder '{folder}': name one with --corpus.")
    files = {
        path.name.split(".")[0]: path
        for ending in (f".{split}.txt", f".{split}.txt.xz")
        for path in folder.glob(f"*{ending}")
    }
    if not files:
        raise DraftscopeError(f"'{folder}' contains no <domain>.{split}.txt.xz or .txt: name another folder.")
    return dict(sorted(files.items()))


def documents(path: Path) -> Iterator[str]:
    """The documents of one corpus file in order, without the separating lines."""
    any_document = False
    try:
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
            for document in _split_documents(line.decode("utf-8") for line in file):
                any_document = True
                yield document
    except UnicodeDecodeError as error:
        raise DraftscopeError(f"'{path}' is not UTF-8 text ({error.reason}): convert it.") from error
    except (EOFError, lzma.LZMAError) as error:
        raise DraftscopeError(f"'{path}' is truncated or not an xz file: download it again.") from error
    if not any_document:
        raise DraftscopeError(f"'{path}' contains no text: remove it or add text.")


def _split_documents(lines: Iterable[str]) -> Iterator[str]:
    held: list[str] = []
    for line in lines:
        if line.rstrip("\r\n") != END_TEXT:
            held.append(line)
            continue
        if document := "".join(held).strip("\n"):
            yield document
        held = []
    if document := "".join(held).strip("\n"):
        yield document


def _tokenised(path: Path, tokenizer: Tokenizer, cache: Path) -> Tokens:
    """The token ids of one corpus file, cached as long as file and tokenizer are unchanged."""
    digest = hashlib.sha256(path.read_bytes() + tokenizer.to_str().encode()).hexdigest()[:16]
    cached = cache / f"{path.name.split('.txt')[0]}.{digest}.u16"
    if not cached.exists():
        cache.mkdir(parents=True, exist_ok=True)
        partial = cached.with_suffix(".partial")
        with partial.open("wb") as out:
            for document in tqdm(documents(path), desc=f"tokenise {path.name}", unit=" documents", mininterval=2):
                ids = tokenizer.encode(document, add_special_tokens=False).ids
                out.write(np.asarray([END, *ids], dtype=np.uint16).tobytes())
        os.replace(partial, cached)
    return np.memmap(cached, dtype=np.uint16, mode="r")


# The credit line of each source, required or customary, by the part's name in SOURCES.md.
CREDIT = {
    "tinystories_mines": "TinyStories by Ronen Eldan and Yuanzhi Li",
    "tinystories_small": "TinyStories by Ronen Eldan and Yuanzhi Li",
    "storybooks_asp": "African Storybook and its authors, each named in ATTRIBUTION-storybooks.tsv.xz",
    "storybooks_pratham": "Pratham Books StoryWeaver and its authors, each named in ATTRIBUTION-storybooks.tsv.xz",
    "fairytaleqa": "FairytaleQA by Ying Xu and others, University of California, Irvine",
    "fairytales_lcats": "fairy tales in the public domain, collected by the LCATS project",
    "sgd": "Schema-Guided Dialogue by Abhinav Rastogi and others, Google",
    "sgd_json_csv": "Schema-Guided Dialogue by Abhinav Rastogi and others, Google; rewritten as JSON and CSV",
    "shakespeare_plays": "William Shakespeare",
    "shakespeare_poems": "William Shakespeare",
    "gsm8k_train": "GSM8K by Karl Cobbe and others, OpenAI",
    "tldr_pages": "the tldr-pages contributors",
    "cpython_stdlib": "Python Software Foundation and the CPython contributors",
    "poetry_eval": "poems in the public domain, collected by Maria Antoniak and others",
    "stepmath": "Erik Hyrkas",
    "conversions": "Erik Hyrkas",
}
LLAMA_CREDIT = "Erik Hyrkas; text generated with Llama 3.1 by Meta"


@dataclass(frozen=True)
class Credit:
    """One row of SOURCES.md."""

    domain: str
    part: str
    size: int  # bytes
    origin: str
    licence: str

    @property
    def by_llama(self) -> bool:
        return "Llama" in self.licence

    @property
    def credit(self) -> str:
        return LLAMA_CREDIT if self.by_llama else CREDIT.get(self.part, self.origin)


def sources(corpus: Path) -> list[Credit]:
    """All sources that a corpus folder lists; empty if it has no SOURCES.md."""
    path = corpus / "SOURCES.md"
    if not path.exists():
        return []
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    return [
        Credit(domain, part, int(size), origin, licence)
        for domain, part, _, size, origin, licence in rows
        if size.isdigit()
    ]
