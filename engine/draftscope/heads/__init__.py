"""Trained heads that read the target's hidden states: as networks, and as published files."""

from __future__ import annotations

from draftscope.heads.base import Head, Lender, Own, RecurrentHead
from draftscope.heads.block import Block, BlockConfig
from draftscope.heads.eagle import Eagle1, Eagle1Config, Eagle3, Eagle3Config, default_layers
from draftscope.heads.formats import KINDS, kind_of, load_head, save_head
from draftscope.heads.layer import Shape
from draftscope.heads.medusa import Medusa, MedusaConfig
from draftscope.heads.mtp import Mtp, MtpConfig

__all__ = [
    "KINDS",
    "Block",
    "BlockConfig",
    "Eagle1",
    "Eagle1Config",
    "Eagle3",
    "Eagle3Config",
    "Head",
    "Lender",
    "Medusa",
    "MedusaConfig",
    "Mtp",
    "MtpConfig",
    "Own",
    "RecurrentHead",
    "Shape",
    "default_layers",
    "kind_of",
    "load_head",
    "save_head",
]
