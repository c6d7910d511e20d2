"""The settings of one decoding run: what every run has, and the options of its drafter."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator

from draftscope.base.errors import DraftscopeError
from draftscope.base.settings import MAX_NODES, GeneralSettings, nodes_in, sentence

Branches = Annotated[int, Field(ge=1, le=64)]


class Settings(GeneralSettings):
    """One run. Frozen; unknown names are refused. `Settings.of(...)` raises errors that can be shown to a user."""

    gamma: int = Field(4, ge=1, le=64, description="drafted tokens in a chain")
    draft_length: Literal["fixed", "cost", "confidence", "heuristic", "specdec++", "adaedl"] = Field(
        "fixed", description="tokens of a chain, up to gamma: all (fixed), or chosen while drafting"
    )
    confidence: float = Field(
        0.4,
        ge=0.0,
        le=1.0,
        description="drafting stops below it: a token's probability (confidence), its chance to be accepted, by the "
        "entropy it came from (adaedl), or the whole draft's chance (specdec++)",
    )
    shape: tuple[Branches, ...] = Field(
        (3, 2, 1), min_length=1, max_length=16, description="children of every node, level by level, in a tree"
    )
    tree_nodes: int = Field(16, ge=1, le=MAX_NODES, description="nodes of a tree that grows by probability")
    tree_depth: int = Field(5, ge=1, le=16, description="its depth")
    tree_width: int = Field(4, ge=1, le=32, description="nodes that it grows from at each depth, and children of each")
    ngram: int = Field(
        3, ge=1, le=16, description="longest suffix that an n-gram drafter looks up; size of lookahead's n-grams"
    )
    window: int = Field(5, ge=1, le=32, description="columns of lookahead's window, and n-grams it verifies at once")
    typed: str = Field("", max_length=20_000, description="the continuation that a person drafts")
    inner: Literal["ngram", "suffix", "none"] = Field(
        "ngram", description="who drafts for the smallest model of a cascade: ngram, suffix or none"
    )
    exit_layer: int | None = Field(
        None, ge=1, description="layers of the target that an early exit drafts with; left out, a quarter of them"
    )
    oracle_alpha: float = Field(0.8, ge=0.0, le=1.0, description="share of its tokens that the oracle leaves right")
    prefetch: int = Field(8, ge=1, le=64, description="outcomes of a round that SSD drafts for while it is verified")
    policy: Literal["ucb", "exp3", "thompson"] = Field("ucb", description="how a bandit chooses among its arms")
    arms: tuple[str, ...] = Field(
        ("draft:2", "draft:4", "draft:8", "sampled-tree:2x1x1x1", "sampled-tree:4x1"),
        min_length=1,
        max_length=16,
        description="what a bandit chooses among: drafters, each with its gamma or its shape",
    )
    rule: Literal["block", "token", "typical", "lenient", "top-k"] = Field(
        "block", description="how a drawn chain is judged: exactly by block or token, otherwise lossy"
    )
    lenience: float = Field(0.5, gt=0.0, le=1.0, description="lenient: accepts with probability p / (lenience q)")
    agreement: int = Field(3, ge=1, le=1000, description="top-k: accepts what is among so many of p's likeliest")

    @field_validator("shape")
    @classmethod
    def _bounded(cls, shape: tuple[int, ...]) -> tuple[int, ...]:
        if nodes_in(shape) > MAX_NODES:
            raise ValueError(f"makes {nodes_in(shape)} nodes; keep a tree to {MAX_NODES}")
        return shape

    @classmethod
    def of(cls, **values: Any) -> Settings:
        """Validated settings, or a `DraftscopeError` that names the value and its range."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise DraftscopeError(sentence(error, cls.model_fields)) from None
