"""Made-up drafters with a trained head, in one file: DFlash's block that looks at one hidden state only."""

from __future__ import annotations

from typing import Any

from draftscope.drafters.drafter import DrafterInfo
from draftscope.drafters.heads.positions import BlockSource, PositionsChain, PositionsTree
from draftscope.drafters.options import ChainOptions, GrownTreeOptions
from draftscope.models.head_kinds import HeadKind, HeadNetwork
from draftscope.models.heads import Block, BlockConfig, block
from draftscope.models.heads.head_files import Defect
from draftscope.models.heads.lessons import Blocks


class Glimpse(Block):
    """A block of five."""


def read(found: Any, shared: Any) -> tuple[Glimpse, dict[str, Any]]:
    head, tensors = block.read_block(found, shared)
    return Glimpse(head.config, shared), tensors


NETWORK = HeadNetwork(
    Glimpse,
    read,
    block.write_block,
    first=lambda shape, shared, _: Glimpse(BlockConfig(shape, 1, 5, 1, (shared.layers,)), shared),
    lesson=lambda target, head: Blocks(target, head, (1.0,) * 4),
    checks=(lambda found, shared: [Defect("blurred", "it says so")] if "blurred" in found.config else [],),
)
HEAD = HeadKind(
    "glimpse",
    lambda: NETWORK,
    names={"vllm": "glimpse", "sglang": "GLIMPSE"},
    marks=("Glimpse", "blurred"),
    method="A glimpse of {depths} tokens.",
)
INFO = DrafterInfo(
    name="glimpse",
    title="A glimpse, chain",
    paper="made up",
    create=lambda parts: PositionsChain(parts, BlockSource(parts.heads["glimpse"], parts)),
    options=ChainOptions,
    head=HEAD,
)
WIDE = DrafterInfo(
    name="wide-glimpse",
    title="A glimpse, tree",
    paper="made up",
    create=lambda parts: PositionsTree(parts, BlockSource(parts.heads["glimpse"], parts), sparse=False),
    options=GrownTreeOptions,
    head=HEAD,
    grows_trees=True,
)
