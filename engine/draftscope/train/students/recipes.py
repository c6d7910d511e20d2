"""What each member is trained with: on two cores, or on a GPU."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from draftscope.base.errors import DraftscopeError
from draftscope.models.loading.embedded import Member
from draftscope.train.loop.optimizers import Rates
from draftscope.train.loop.pretrain import Recipe

EPOCHS = 4  # of the training text, at most, in a target

TARGET, EXPERTS = Rates(4e-3, 5e-3), Rates(4e-3, 3e-3)  # matrices, rest
DRAFT, UNROLLED, PARALLEL = Rates(4e-3, 1e-2), Rates(8e-3, 5e-3), Rates(1.6e-2, 8e-3)
RATES = {
    "target": TARGET,
    "draft": DRAFT,
    "eagle3": UNROLLED,
    "medusa": PARALLEL,
    "block": PARALLEL,
    "mtp": UNROLLED,
    "mamba2": DRAFT,
    "draft-2l": DRAFT,
    "draft-tiny": DRAFT,
    "draft-hopeless": DRAFT,
    "eagle": UNROLLED,
    "experts": EXPERTS,
    "experts-draft": DRAFT,
}


@dataclass(frozen=True)
class Preset:
    """`minutes` in training steps for each member. A target of `enough` tokens needs no more of them."""

    device: str
    minutes: dict[str, float]
    enough: int
    target_step: int  # tokens a step
    draft_step: int
    head_step: int
    samples: int  # rows of the target's own text

    def recipe(self, member: Member) -> Recipe:
        """A member's recipe."""
        if not member.of:
            return Recipe(RATES[member.name], self.target_step)
        step = self.head_step if member.is_head else self.draft_step
        return Recipe(RATES[member.name], step, self.samples)

    def place(self) -> torch.device:
        """The device to train on; DraftscopeError where there is none."""
        if self.device == "cuda" and not torch.cuda.is_available():
            raise DraftscopeError("--preset gpu needs a CUDA device and finds none; choose --preset cpu.")
        return torch.device(self.device)


CPU = Preset(
    device="cpu",
    minutes={
        "target": 300,
        "draft": 20,
        "eagle3": 30,
        "medusa": 10,
        "block": 25,
        "mtp": 15,
        "mamba2": 20,
        "draft-2l": 15,
        "draft-tiny": 5,
        "draft-hopeless": 1,
        "eagle": 15,
        "experts": 60,
        "experts-draft": 10,
    },
    enough=40_000_000,
    target_step=8192,
    draft_step=4096,
    head_step=2048,
    samples=256,
)
GPU = Preset(
    device="cuda",
    minutes={
        "target": 6,
        "draft": 1.5,
        "eagle3": 2.5,
        "medusa": 1,
        "block": 2,
        "mtp": 1.5,
        "mamba2": 1.5,
        "draft-2l": 1.5,
        "draft-tiny": 0.5,
        "draft-hopeless": 0.1,
        "eagle": 1,
        "experts": 4,
        "experts-draft": 1,
    },
    enough=110_000_000,
    target_step=65_536,
    draft_step=32_768,
    head_step=16_384,
    samples=1024,
)
PRESETS = {"cpu": CPU, "gpu": GPU}
