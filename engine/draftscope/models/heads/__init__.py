"""Trained heads that read the target's hidden states: the networks and their published file formats."""

from __future__ import annotations

from draftscope.models.heads.block import Block, BlockConfig, DSpark, DSparkConfig
from draftscope.models.heads.eagle import Eagle1, Eagle1Config, Eagle3, Eagle3Config, default_layers
from draftscope.models.heads.formats import kind_of, load_head, save_head
from draftscope.models.heads.head import Head, OwnWeights, RecurrentHead, SharedWeights
from draftscope.models.heads.layer import HeadShape
from draftscope.models.heads.medusa import Medusa, MedusaConfig
from draftscope.models.heads.mtp import Mtp, MtpConfig

__all__ = [
    "Block",
    "BlockConfig",
    "DSpark",
    "DSparkConfig",
    "Eagle1",
    "Eagle1Config",
    "Eagle3",
    "Eagle3Config",
    "Head",
    "HeadShape",
    "Medusa",
    "MedusaConfig",
    "Mtp",
    "MtpConfig",
    "OwnWeights",
    "RecurrentHead",
    "SharedWeights",
    "default_layers",
    "kind_of",
    "load_head",
    "save_head",
]
