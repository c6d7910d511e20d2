"""Medusa (2401.10774): K heads on the target's last hidden state; each predicts one token further ahead.

No head knows what the others predict, so their distributions are used for deterministic (top-k) children, not for
children drawn along a path.

FasterDecoding's files: `medusa_lm_head` with `{head}.{block}.linear.*` and, after the blocks, `{head}.{blocks}.weight`.
Heads and blocks are counted in the weights, because some uploaded configurations name too few. Speculators', where
heads may share the target's output weights: `blocks.{head}.layers.{block}.*` and `lm_heads.{head}.weight`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from draftscope.models.heads.head import SHARES_ALL, Head, SharedWeights
from draftscope.models.heads.head_files import Checkpoint, Published
from draftscope.models.heads.published import built, same_hidden, speculators_config

BLOCK, OUTPUT = re.compile(r"^(\d+)\.(\d+)\.linear\."), re.compile(r"^(\d+)\.\d+\.weight$")
LAYER = re.compile(r"^(blocks\.\d+\.)layers\.")


@dataclass(frozen=True)
class MedusaConfig:
    """`heads` K of `blocks` residual blocks each. `shared`: all use the target's output weights instead of their own
    (`original_lm_head` in vLLM). `bias`: whether the blocks have one."""

    heads: int
    blocks: int = 1
    shared: bool = False
    bias: bool = True


class Medusa(Head):
    """Starts as K copies of the target's output: its blocks initially add nothing."""

    def __init__(self, config: MedusaConfig, shared: SharedWeights) -> None:
        super().__init__(shared, SHARES_ALL, shared.hidden, (shared.layers,), depth=0)
        self.config = config
        self.max_draft = config.heads
        heads, hidden = range(config.heads), shared.hidden
        self.blocks = nn.ModuleList(
            nn.ModuleList(nn.Linear(hidden, hidden, bias=config.bias) for _ in range(config.blocks)) for _ in heads
        )
        for weight in self.blocks.parameters():
            nn.init.zeros_(weight)
        outputs = range(0 if config.shared else config.heads)
        self.lm_heads = nn.ModuleList(nn.Linear(hidden, self.vocabulary, bias=False) for _ in outputs)
        with torch.no_grad():
            for weight in self.lm_heads.parameters():
                weight.copy_(shared.lm_head)

    def forward(self, states: Tensor) -> Tensor:
        """The target's hidden states [B, T, H] -> logits [B, T, K, V]; entry k of row i predicts token i + 2 + k.

        The last row is the one before the pending token, so it predicts the tokens after the pending token.
        """
        rows = torch.stack([self._hidden(k, states) for k in range(self.config.heads)], 2)  # [B, T, K, H]
        if self.config.shared:
            return self.project(rows)  # all rows at once, so that the weights are read once
        return torch.stack([head(rows[:, :, k]) for k, head in enumerate(self.lm_heads)], 2)

    def _hidden(self, head: int, rows: Tensor) -> Tensor:
        blocks = self.blocks[head]
        assert isinstance(blocks, nn.ModuleList)
        for block in blocks:
            rows = rows + F.silu(block(rows))
        return rows


def read_medusa(saved: Checkpoint, shared: SharedWeights) -> tuple[Medusa, dict[str, Tensor]]:
    if "speculators_model_type" in saved.config:
        return _read_speculators(saved, shared)
    blocks = [match for name in saved.tensors if (match := BLOCK.match(name))]
    if not blocks:
        raise saved.wrong("has no Medusa heads in its weights; choose a folder with a medusa_lm_head file.")
    tensors = {OUTPUT.sub(r"lm_heads.\1.weight", BLOCK.sub(r"blocks.\1.\2.", n)): t for n, t in saved.tensors.items()}
    config = MedusaConfig(
        heads=1 + max(int(match[1]) for match in blocks),
        blocks=1 + max(int(match[2]) for match in blocks),
        bias="blocks.0.0.bias" in tensors,
    )
    return built(Medusa, config, shared), tensors


def _read_speculators(saved: Checkpoint, shared: SharedWeights) -> tuple[Medusa, dict[str, Tensor]]:
    same_hidden(saved, saved.number("medusa_hidden_size"), shared)
    if saved.config.get("truncated_vocab_size"):
        raise saved.wrong(
            "drafts only a part of the vocabulary ('truncated_vocab_size'), which is not supported for Medusa; choose "
            "another head."
        )
    heads, blocks = saved.number("num_heads"), saved.number("num_hidden_layers")
    one_output, bias = (bool(saved.config.get(key)) for key in ("original_lm_head", "medusa_fc_bias"))
    tensors = {LAYER.sub(r"\1", name): tensor for name, tensor in saved.tensors.items()}
    return built(Medusa, MedusaConfig(heads, blocks, one_output, bias), shared), tensors


def write_medusa(head: Medusa, target: str) -> Published:
    """FasterDecoding's format or, if heads share the target's output weights, speculators', which alone supports it."""
    return _speculators(head, target) if head.config.shared else _fasterdecoding(head, target)


def _fasterdecoding(head: Medusa, target: str) -> Published:
    blocks, state = head.config.blocks, head.state_dict()
    names = {name: re.sub(r"^blocks\.(\d+)\.(\d+)\.", r"\1.\2.linear.", name) for name in state}
    tensors = {re.sub(r"^lm_heads\.(\d+)\.", rf"\1.{blocks}.", names[name]): state[name] for name in state}
    config = {"medusa_num_heads": head.config.heads, "medusa_num_layers": blocks, "base_model_name_or_path": target}
    return Published(config, tensors, "medusa_lm_head")


def _speculators(head: Medusa, target: str) -> Published:
    ours = head.config
    config = speculators_config("medusa", ours.heads, target) | {
        "architectures": ["MedusaModel"],
        "num_heads": ours.heads,
        "num_hidden_layers": ours.blocks,
        "medusa_hidden_size": head.shared.hidden,
        "medusa_vocab_size": head.shared.vocabulary,
        "truncated_vocab_size": 0,
        "original_lm_head": True,
        "medusa_fc_bias": ours.bias,
    }
    return Published(config, {re.sub(r"^(blocks\.\d+\.)", r"\1layers.", n): t for n, t in head.state_dict().items()})
