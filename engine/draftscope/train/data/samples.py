"""Text by the target itself, for a drafter to learn on.

While decoding a drafter reads what the target wrote, not the corpus; a share of such text
in its training brings the two closer.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from draftscope.train.data.batches import Batches
from draftscope.train.data.corpus import ROW
from draftscope.train.data.tokenizer import PAD
from draftscope.train.loop.precision import precision

TEMPERATURE = 0.8  # in the middle of what the lanes are run at
PROMPT = 32  # tokens of training text in front of each sample
TOGETHER = 128  # rows per batch


def sampled_rows(target: Any, batches: Batches, rows: int, length: int, seed: int, kept: Path) -> torch.Tensor:
    """`rows` rows by the target, [rows, length + 1]; kept on disk, so that a resumed run sees the same."""
    if rows == 0:
        return torch.zeros((0, length + 1), dtype=torch.long)
    if kept.exists():
        saved: torch.Tensor = torch.load(kept, weights_only=True)
        return saved
    prompts = _prompts(batches, rows)  # [rows, PROMPT]
    writer = copy.deepcopy(target).to(precision(target.device.type)).eval()
    # A new document may follow within a row, as in the corpus: the end token ends nothing here.
    writer.generation_config.eos_token_id = None
    torch.manual_seed(seed)
    parts = tqdm(torch.split(prompts.to(writer.device), TOGETHER), desc="target's own text")
    result = torch.cat([_continue(writer, part, length) for part in parts])
    kept.parent.mkdir(parents=True, exist_ok=True)
    torch.save(result, kept)
    return result


def _prompts(batches: Batches, rows: int) -> torch.Tensor:
    """Openings of training rows, in the corpus's mix of domains."""
    found: list[torch.Tensor] = []
    step = 0
    while sum(len(part) for part in found) < rows:
        found.append(batches.rows(step, ROW)[0][:, :PROMPT])
        step += 1
    return torch.cat(found)[:rows]


@torch.inference_mode()
def _continue(writer: Any, prompts: torch.Tensor, length: int) -> torch.Tensor:
    rows = writer.generate(
        input_ids=prompts,
        attention_mask=torch.ones_like(prompts),
        do_sample=True,
        temperature=TEMPERATURE,
        top_k=0,
        max_new_tokens=length + 1 - prompts.shape[1],
        pad_token_id=PAD,
    )
    return rows.cpu()  # type: ignore[no-any-return]
