"""What the site's recordings are of: prompts, the models that continue them, and the drafters that race there."""

from __future__ import annotations

from dataclasses import dataclass

from draftscope.base.assets import assets
from draftscope.base.prompts import select, shipped
from draftscope.models.loading.embedded import PAIR

FOLDER = assets() / "traces" / "site"
SUFFIX = ".jsonl.xz"
TEMPERATURES = (0.0, 1.0)
NOT_RECORDED = ("plain", "typed")  # plain races beside each; the words of another reader are nobody's draft


@dataclass(frozen=True)
class RecordedText:
    """A prompt of the `kind`, for the models `target`. No `drafters`: every one that these models can run."""

    name: str
    target: str
    kind: str
    drafters: tuple[str, ...] = ()
    chat: bool = False

    @property
    def prompt(self) -> str:
        return select(shipped(self.chat))[self.kind][0].text


HEADS = ("eagle3", "eagle3-tree", "eagle3-sampled-tree", "hybrid", "draft", "suffix")
TEXTS = (
    RecordedText("story", PAIR, "story"),
    RecordedText("structured", PAIR, "structured"),
    RecordedText("question", "smollm2", "Q&A", HEADS, chat=True),
)
