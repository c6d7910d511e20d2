"""The options of every drafter: name, type, range, default, help text and control, each declared once.

A drafter names its class of options in its `DrafterInfo`. The command line, the page, the API and the README's table
are generated from `registry.known_options()`, which also lists what drafters of other packages declare. Imports no
torch.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from draftscope.base.common_settings import Control

TreeShape = tuple[int, ...]  # children of every node, level by level
MAX_NODES = 256  # drafted nodes in one round; more than any published tree, and still one forward

Branches = Annotated[int, Field(ge=1, le=64)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class DrafterOptions(BaseModel):
    """The options that a drafter reads. Subclasses add fields, each with a default and a description, and say in
    `nodes` how many nodes a round may have. Frozen."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def nodes(self) -> int:
        """The most nodes that one round may draft with these options."""
        return 0


class GammaOptions(DrafterOptions):
    """For drafters of chains: `gamma`, 1 to 64, the tokens that a round drafts at most."""

    gamma: Annotated[int, Control("γ, drafted a round (at most)", most=16)] = Field(
        default=4, ge=1, le=64, description="drafted tokens in a chain"
    )

    @property
    def nodes(self) -> int:
        return self.gamma


class LengthOptions(DrafterOptions):
    """How long a chain becomes, up to gamma; see `draftscope.drafters.length`."""

    draft_length: Annotated[
        Literal["fixed", "cost", "confidence", "heuristic", "specdec++", "adaedl"],
        Control(
            "Draft length",
            choices=(
                "always γ",
                "as measured costs say",
                "while the draft is confident",
                "transformers' heuristic",
                "SpecDec++",
                "AdaEDL",
            ),
            advanced=True,
        ),
    ] = Field(default="fixed", description="tokens of a chain, up to gamma: all (fixed), or decided while drafting")
    confidence: Annotated[
        float,
        Control(
            "Drafting stops below",
            step=0.01,
            visible_if=("draft_length", ("confidence", "specdec++", "adaedl")),
            advanced=True,
        ),
    ] = Field(
        default=0.4,
        ge=0.0,
        le=1.0,
        description="drafting stops below this value: of a token's probability (confidence), of its acceptance as "
        "estimated from the draft's entropy (adaedl), or of the acceptance of the whole draft (specdec++)",
    )


class ShapeOptions(DrafterOptions):
    """A full tree in which every node of level d has `shape[d]` children."""

    shape: Annotated[tuple[Branches, ...], Control("Tree: children of each node, by depth")] = Field(
        default=(3, 2, 1), min_length=1, max_length=16, description="children of each node of a tree, level by level"
    )

    @field_validator("shape")
    @classmethod
    def _bounded(cls, shape: TreeShape) -> TreeShape:
        if nodes_in(shape) > MAX_NODES:
            raise ValueError(f"makes {nodes_in(shape)} nodes; keep a tree to {MAX_NODES}")
        return shape

    @property
    def nodes(self) -> int:
        return nodes_in(self.shape)


class TreeSizeOptions(DrafterOptions):
    """The size of a tree whose shape the drafter chooses."""

    tree_nodes: Annotated[int, Control("Tree: nodes", most=64)] = Field(
        default=16, ge=1, le=MAX_NODES, description="nodes of a tree whose shape the drafter chooses"
    )
    tree_depth: Annotated[int, Control("Tree: depth", most=10, advanced=True)] = Field(
        default=5, ge=1, le=16, description="depth of that tree"
    )

    @property
    def nodes(self) -> int:
        return self.tree_nodes


class GrownTreeOptions(TreeSizeOptions):
    """A tree that grows from its most probable nodes."""

    tree_width: Annotated[int, Control("Tree: width, and children of a node", most=10, advanced=True)] = Field(
        default=4, ge=1, le=32, description="nodes that the tree grows from at each depth, and children of each"
    )


class NgramSizeOptions(DrafterOptions):
    ngram: Annotated[int, Control("Longest n-gram", most=8, advanced=True)] = Field(
        default=3,
        ge=1,
        le=16,
        description="longest suffix that an n-gram drafter looks up; size of lookahead's n-grams",
    )


class LookaheadOptions(NgramSizeOptions):
    window: Annotated[int, Control("Window: columns", most=16)] = Field(
        default=5, ge=1, le=32, description="columns of lookahead's window, and n-grams that it verifies at once"
    )

    @property
    def nodes(self) -> int:
        return 2 * self.window * (self.ngram - 1)


class RuleOptions(DrafterOptions):
    """How drawn chains are verified above temperature 0; see `draftscope.verify.rules`."""

    rule: Annotated[
        Literal["block", "token", "typical", "lenient", "top-k"],
        Control(
            "Rule above temperature 0",
            choices=("block (exact)", "token (exact)", "typical (lossy)", "lenient (lossy)", "top-k (lossy)"),
        ),
    ] = Field(
        default="block", description="how a drawn chain is verified: block and token are exact, the others are lossy"
    )
    lenience: Annotated[float, Control("Lenience l", least=0.05, step=0.05, visible_if=("rule", ("lenient",)))] = Field(
        default=0.5, gt=0.0, le=1.0, description="rule lenient: a token is accepted with probability p / (lenience q)"
    )
    agreement: Annotated[int, Control("k likeliest of p", most=32, visible_if=("rule", ("top-k",)))] = Field(
        default=3,
        ge=1,
        le=1000,
        description="rule top-k: a token is accepted if it is among this many most likely tokens of p",
    )


class DrawnChainOptions(GammaOptions, RuleOptions):
    """A chain of gamma tokens drawn from distributions."""


class ChainOptions(DrawnChainOptions, LengthOptions):
    """A drawn chain whose length may be decided while it is drafted."""


class NgramOptions(GammaOptions, NgramSizeOptions):
    """A chain copied from the text."""


class CascadeOptions(DrawnChainOptions, NgramSizeOptions):
    inner: Annotated[
        Literal["ngram", "suffix", "none"],
        Control("Drafter of the smallest model", choices=("n-gram", "suffix", "nothing")),
    ] = Field(default="ngram", description="what drafts for the smallest model of a cascade: ngram, suffix or none")


class EarlyExitOptions(ChainOptions):
    exit_layer: Annotated[int | None, Control("Target layers that draft", placeholder="a quarter of them")] = Field(
        default=None, ge=1, description="number of the target's layers that draft; by default a quarter of them"
    )


class OracleOptions(GammaOptions):
    oracle_alpha: Annotated[float, Control("α: share of right tokens (synthetic)", step=0.01)] = Field(
        default=0.8, ge=0.0, le=1.0, description="probability that an oracle token is correct"
    )
    oracle_curve: Annotated[
        tuple[Share, ...],
        Control("α by position, if all before were accepted", placeholder="empty: α at every position", advanced=True),
    ] = Field(
        default=(),
        description="the same by position, if all before were accepted; the last one holds for all later; replaces "
        "oracle_alpha",
    )

    @property
    def curve(self) -> tuple[float, ...]:
        """[gamma]: the probability by position."""
        given = self.oracle_curve or (self.oracle_alpha,)
        return tuple(given[min(place, len(given) - 1)] for place in range(self.gamma))


class SsdOptions(DrawnChainOptions):
    prefetch: Annotated[int, Control("Prepared outcomes")] = Field(
        default=8, ge=1, le=64, description="outcomes of a round that SSD drafts for while the target verifies it"
    )


class BanditOptions(RuleOptions):
    """The nodes of a bandit's round are those of its largest arm; see `draftscope.drafters.policy.bandit`."""

    policy: Annotated[
        Literal["ucb", "exp3", "thompson"],
        Control("Policy that chooses an arm", choices=("UCB", "EXP3", "Thompson sampling")),
    ] = Field(default="ucb", description="how a bandit chooses among its arms")
    arms: Annotated[tuple[str, ...], Control("Arms: NAME:γ or NAME:2x1x1", lines=3)] = Field(
        default=("draft:2", "draft:4", "draft:8", "sampled-tree:2x1x1x1", "sampled-tree:4x1"),
        min_length=1,
        max_length=16,
        description="what a bandit chooses among: drafters, each with its gamma or its shape",
    )


BETWEEN = "||"  # separates continuations that people typed


class TypedOptions(DrafterOptions):
    typed: Annotated[str, Control("You draft: how does the text go on?", lines=3)] = Field(
        default="",
        max_length=20_000,
        description="the continuation that a person drafts; several, separated by ||, become a tree",
    )

    @property
    def nodes(self) -> int:
        return MAX_NODES


DECLARING = (  # every class above that declares a field, in the order in which the command line and the page list them
    GammaOptions, LengthOptions, ShapeOptions, TreeSizeOptions, GrownTreeOptions, NgramSizeOptions, LookaheadOptions,
    CascadeOptions, EarlyExitOptions, OracleOptions, SsdOptions, BanditOptions, TypedOptions, RuleOptions,
)  # fmt: skip


def nodes_in(shape: TreeShape) -> int:
    """Nodes of the full tree in which every node of level d has `shape[d]` children."""
    total, level = 0, 1
    for branches in shape:
        level *= branches
        total += level
    return total
