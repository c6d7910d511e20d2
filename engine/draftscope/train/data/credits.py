"""The credits in a model card: the sources listed in a corpus folder's SOURCES.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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
