"""The tables of this room, and the cards and engines in them.

What is asked for is known exactly (`exact_name`): its words are all of a row's name or of its pattern, case ignored,
and those left over name no other product. In the free text of a published record a row is picked by the first pattern
that occurs as words (`pick_row`)."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

from draftscope.base.errors import DraftscopeError, quoted

Row = Mapping[str, str]
NEAREST, SHORT = 5, 15  # names in a message; rows of a table that is named as a whole
LIKE, SAME_GB = 0.6, 0.12  # difflib's ratio from which a name is like another; share by which GB may differ from GiB
FORMATS = (
    "bf16|fp16|f16|fp8|w8a8|int8|8-?bit|q8(?:[_-]0)?|q6(?:[_-]k)?|6-?bit|q5(?:[_-]k)?(?:[_-](?:s|m|xl|0|1))?|awq|gptq|int4|"
    "4-?bit|i?q4(?:[_-](?:k|xs|nl))?(?:[_-](?:s|m|xl|0|1))?|(?:nv|mx)?fp4|i?q3(?:[_-]\\w+)*|3-?bit|i?q2(?:[_-]\\w+)*|2-?bit"
)
MORE = {  # what may follow a name without naming something else
    "models": r"\.\d|-(?:instruct|chat|base|it|hf|text|thinking|ud|gguf|v\d[\d.]*|\d{4}|" + FORMATS + ")",
    "engines": r" v?\d[\w.]*",
}
GB = r"\b(\d+) ?gb\b"
FREE = r"\b(?:nvidia|amd|apple|geforce|radeon|instinct|tesla|gpu|hbm\w*|sxm\d?)\b|[()-]"  # in a card's name


@cache
def read_table(name: str) -> tuple[Row, ...]:
    """All rows of `name`.csv in this folder, as text by column."""
    text = files(__package__).joinpath(f"{name}.csv").read_text("utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def pick_row(table: str, name: str) -> Row | None:
    """The first row whose pattern occurs as words of `name`."""
    words, before = _words(table, name), "(?<![a-z])" if table == "cards" else ""
    ends = ((row, rf"{before}(?:{row['pattern']})(?![a-z0-9])") for row in read_table(table))
    return next((row for row, pattern in ends if re.search(pattern, words)), None)


def exact_row(table: str, name: str) -> Row | None:
    """The row that is meant by all of `name`."""
    words = _words(table, name.rpartition("/")[2] if table == "models" else name)
    rows = (row for row in read_table(table) if _same(row, table, words) and _same_memory(row, words))
    return next(rows, None)


def exact_name(table: str, what: str, name: str) -> str:
    """The name of the row that is meant; a DraftscopeError says which ones `name` is like."""
    if (row := exact_row(table, name)) is None:
        raise DraftscopeError(f"The {what} '{quoted(name)}' is not known; did you mean {names_like(table, name)}?")
    return row["name"]


def _words(table: str, name: str) -> str:
    return re.sub(r"[\s_]+", "-" if table == "models" else " ", name.strip().lower())


def _same(row: Row, table: str, words: str) -> bool:
    said, more = row["name"].lower(), MORE.get(table, "(?!)")
    if said == words or re.fullmatch(rf"(?:{row['pattern']})(?:{more})*", words):
        return True
    less, name = (" ".join(re.sub(free, " ", text).split()) for free, text in ((rf"{FREE}|{GB}", words), (FREE, said)))
    return table == "cards" and bool(less == name or re.fullmatch(row["pattern"], less))


def _same_memory(row: Row, words: str) -> bool:
    """Whether the GB in `words`, if there are any, are the card's: a product with others is another one."""
    said = re.search(GB, words)
    return not said or "memory_gb" not in row or abs(int(said[1]) / float(row["memory_gb"]) - 1) < SAME_GB


def names_like(table: str, name: str) -> str:
    """The names of a table for a message: those that are like `name`, or all of a short table."""
    names = {row["name"].lower(): row["name"] for row in read_table(table)}
    short = {words.split()[0]: name for words, name in reversed(names.items())}  # 'h100' of 'H100 SXM'
    known = names | {word: name for word, name in short.items() if any(map(str.isdigit, word))}
    near = get_close_matches(name.lower(), known, NEAREST, cutoff=LIKE)
    if not near:
        near = list(names) if len(names) <= SHORT else get_close_matches(name.lower(), known, NEAREST, cutoff=0)
    *first, last = dict.fromkeys(map(known.__getitem__, near))
    return f"{', '.join(first)} or {last}" if first else last


@dataclass(frozen=True)
class Card:
    """GB/s of memory, dense bfloat16 TFLOP/s, GB of memory, and GB/s to a neighbour in one direction."""

    name: str
    gb_s: float
    tflop_s: float
    memory_gb: float = 80.0
    link_gb_s: float = 25.0


def find_card(name: str) -> Card:
    """The card of a name such as 'H100' or 'RTX 3090 24GB'."""
    if (row := pick_row("cards", name)) is None:
        raise DraftscopeError(f"The card '{quoted(name)}' is not known; did you mean {names_like('cards', name)}?")
    return Card(row["name"], *(float(row[key]) for key in ("gb_s", "bf16_tflop_s", "memory_gb", "link_gb_s")))


@dataclass(frozen=True)
class EngineCosts:
    """Milliseconds beside the kernels. Servers draft chains where nothing else is said, the papers' own code trees."""

    name: str
    trees: bool
    by_tensor: bool  # several cards share each layer; otherwise each has some of the layers
    layer_ms: float  # launches of a layer, or the gaps between its kernels in a graph
    step_ms: float  # at each forward of the target
    sequence_ms: float  # the same for each sequence; twice that in a round of speculation
    draft_ms: float  # at each forward of the drafter
    round_ms: float  # at each round of speculation


def find_engine(name: str) -> EngineCosts:
    """The row of the table that fits a name such as 'vLLM 0.27.1'; what no row names is 'other'."""
    row = pick_row("engines", name or "other")
    assert row is not None, "the last row fits every name"
    times = (float(row[key]) for key in ("layer_ms", "step_ms", "sequence_ms", "draft_ms", "round_ms"))
    return EngineCosts(row["name"], row["trees"] == "1", row["split"] == "tensor", *times)
