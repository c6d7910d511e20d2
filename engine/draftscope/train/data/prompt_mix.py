"""Prompts for a target to answer: those written for training, a prompt file's, or the beginnings of a text's documents.

The standard evaluation sets are for measuring, so nothing here reads them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from math import prod, sqrt
from pathlib import Path
from random import Random

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.base.prompts import Prompt
from draftscope.train.data import corpus

MIN_LENGTH, MAX_LENGTH = 12, 1200  # characters of a document, and of a prompt made from one
OPENING = 300  # characters of a document that the target is asked to continue, about
SLOT = re.compile(r"\{(\w+)\}")
QUESTION = re.compile(r"(Question: .*?)\nAnswer:", re.DOTALL)
FUNCTION = re.compile(r'^def \w+\(.*?\n +""".+?"""\n', re.DOTALL | re.MULTILINE)


def training_prompts(seed: int, per_kind: int) -> list[Prompt]:
    """The prompts written for training: templates filled with words, up to `per_kind` of each kind."""
    source = json.loads((assets() / "training_prompts.json").read_text(encoding="utf-8"))
    words: dict[str, list[str]] = source["words"]
    kinds: dict[str, list[str]] = source["kinds"]
    return [
        Prompt(kind, text) for kind, templates in kinds.items() for text in _filled(templates, words, seed, per_kind)
    ]


def _filled(templates: list[str], words: dict[str, list[str]], seed: int, count: int) -> list[str]:
    """Up to `count` different texts; a template has at most its even share of them."""
    random = Random(seed)
    share = count // len(templates)
    drawn: dict[str, None] = {}
    for template in templates:
        possible = prod(len(words[slot]) for slot in SLOT.findall(template))
        for _ in range(min(share, possible) * 2):  # of few possible texts, most are drawn more than once
            chosen = {slot: random.choice(words[slot]) for slot in SLOT.findall(template)}
            text = template.format(**chosen)
            drawn[text[0].upper() + text[1:]] = None
    texts = list(drawn)
    random.shuffle(texts)
    return texts[:count]


def requests_from(folder: Path, per_file: int) -> list[Prompt]:
    """Requests made from the documents in `folder`: their questions and first turns, or to continue their beginnings,
    up to `per_file` of each file.

    The folder is a corpus (`<domain>.train.txt.xz` or `.txt`), or has any `.txt` files. Raises `DraftscopeError` for a
    folder without text.
    """
    prompts = [
        Prompt(kind, request)
        for kind, path in _files(folder).items()
        for request in islice(_requests(_documents(path)), per_file)
    ]
    if not prompts:
        raise DraftscopeError(f"'{folder}' has no document of {MIN_LENGTH} characters or more: name another.")
    return prompts


def _files(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise DraftscopeError(f"There is no folder '{folder}': name a folder of .txt files with --text.")
    if any(folder.glob("*.train.txt*")):
        return corpus.domain_files(folder, "train")
    files = {path.stem: path for path in sorted(folder.glob("*.txt"))}
    if not files:
        raise DraftscopeError(f"'{folder}' has no .txt files: name a folder of text with --text.")
    return files


def _documents(path: Path) -> list[str]:
    """A file's documents; the paragraphs of a file that is one long document."""
    first, *more = corpus.documents(path)
    return [first, *more] if more or len(first) <= MAX_LENGTH else first.split("\n\n")


def _requests(documents: Iterable[str]) -> Iterator[str]:
    """A request for each document that makes one."""
    for number, document in enumerate(documents):
        request = _request(document, number) if len(document) >= MIN_LENGTH else None
        if request is not None and MIN_LENGTH <= len(request) <= MAX_LENGTH:
            yield request


def _request(document: str, number: int) -> str | None:
    if question := QUESTION.search(document):
        before = document[: question.start()].strip()
        request = question[1].removeprefix("Question: ")
        return f"{before.removeprefix('Passage: ')}\n\n{request}" if before.startswith("Passage: ") else request
    if document.startswith("User: "):
        return document.split("\n")[0].removeprefix("User: ")
    if "def " in document:
        function = FUNCTION.search(document)
        return f"Complete this Python function:\n\n```python\n{function[0]}```" if function else None
    if document.startswith("# ") and "\n> " in document:
        return f"How do I use the command {document.split(chr(10))[0].removeprefix('# ')}? Give examples."
    paragraph = document.split("\n\n")[0]
    if paragraph.split("\n")[0].rstrip().endswith((":", "?")) and len(paragraph) > OPENING / 4:
        return paragraph  # an instruction with what it is about
    task = ("Continue this text:", "Summarize this text in two sentences:", "What happens next?")[number % 3]
    return f"{task}\n\n{_opening(document)}"


def _opening(document: str) -> str:
    """The first whole words of a document."""
    return document if len(document) <= OPENING else document[:OPENING].rsplit(maxsplit=1)[0]


def mix(prompts: Iterable[Prompt], seed: int) -> list[Prompt]:
    """All different prompts in random order, the kinds spread so that every stretch has about the same mix.

    The share of a kind grows with the square root of its size, so that small kinds come early.
    """
    random = Random(seed)
    by_kind: dict[str, list[Prompt]] = {}
    for prompt in {prompt.text: prompt for prompt in prompts}.values():
        by_kind.setdefault(prompt.kind, []).append(prompt)
    placed: list[tuple[float, Prompt]] = []
    for members in by_kind.values():
        random.shuffle(members)
        step = 1 / sqrt(len(members))
        placed += [((place + random.random()) * step, prompt) for place, prompt in enumerate(members)]
    return [prompt for _, prompt in sorted(placed, key=lambda pair: pair[0])]
