"""The tables in the Markdown files that the code generates: `python -m tests.generated_tables` writes them anew.

Each stands between `<!-- table: NAME -->` and `<!-- end of table -->`; tests/test_documents.py holds them to the code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from draftscope.base import markdown
from draftscope.models.loading import embedded
from draftscope.servers.audit import coverage
from draftscope.trace import glossary
from draftscope_app.engine import config
from tests.support import architectures, formats
from tests.support.options_table import options_table

ROOT = Path(__file__).resolve().parents[1]


def models() -> str:
    """Every embedded model: what its folder's record and weights say."""
    rows = []
    for member in embedded.FAMILY:
        folder = embedded.home(member.name)
        record = json.loads((folder / embedded.RECORD).read_text(encoding="utf-8"))
        size = (folder / "model.safetensors").stat().st_size
        figures = (record["parameters"] / 1e6, record["tokens_seen"] / 1e6, size / 1e6)
        card = f"[{member.title}]({member.folder}/README.md)"
        words = (f"`{member.name}`", card, member.kind, f"`{member.of}`" if member.of else "-")
        rows.append((*words, *(f"{figure:.1f}" for figure in figures)))
    head = ("name", "card", "kind", "drafts for", "parameters, million", "tokens seen", "MB")
    return markdown.table(head, rows, "llllrrr")


TABLES: dict[str, tuple[str, Callable[[], str]]] = {  # name -> the file that shows it, and what it must be
    "architectures": (
        "engine/draftscope/models/README.md",
        lambda: architectures.table([case.takes for case in architectures.CASES]),
    ),
    "formats": ("engine/draftscope/models/README.md", formats.table),
    "options": ("engine/draftscope/drafters/README.md", options_table),
    "metrics": ("engine/METRICS.md", glossary.table),
    "coverage": ("engine/SERVERS.md", coverage.table),
    "environment": ("app/DEPLOY.md", config.table),
    "models": ("assets/models/README.md", models),
}


def _place(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=<!-- table: {name} -->\n).*?(?=<!-- end of table -->)", re.DOTALL)


def shown(name: str) -> str:
    """The table of that name as its file shows it. Raises `ValueError` where the file has no such place, or several."""
    file, _ = TABLES[name]
    found = _place(name).findall((ROOT / file).read_text(encoding="utf-8"))
    if len(found) != 1:
        raise ValueError(f"{file} has {len(found)} places for the table '{name}'; one is needed")
    return str(found[0]).strip("\n")


def write(name: str) -> None:
    """Puts the table of that name into its file."""
    file, table = TABLES[name]
    path = ROOT / file
    text = _place(name).sub(lambda _: f"{table()}\n", path.read_text(encoding="utf-8"))
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for each in TABLES:
        write(each)
