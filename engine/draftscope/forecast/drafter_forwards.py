"""What each kind of drafter runs in a round: which forwards, how many, and how many rows it gives the target."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from draftscope.base.errors import DraftscopeError, quoted
from draftscope.forecast.architecture import Architecture, find_architecture, of_size
from draftscope.forecast.hardware_tables import names_like, pick_row

CHAIN, TREE = re.compile(r"k=(\d+)"), re.compile(r"steps=(\d+),topk=(\d+),draft_tokens=(\d+)")
SHARE_OF_TARGET = 20  # a draft model that is not given and has no usual one: from a tenth to a fiftieth of the target
MOST = 4096  # steps or rows of a round
USUAL_DRAFTS = {
    "Llama-2": "Llama-68M",
    "Vicuna": "Llama-68M",
    "Llama-3": "Llama-3.2-1B",
    "Qwen2.5": "Qwen2.5-0.5B",
    "Qwen3": "Qwen3-0.6B",
}  # the smallest of the family; EAGLE-3's paper pairs Vicuna with the 68M


@dataclass(frozen=True)
class DrafterKind:
    """A row of the table: `steps` forwards one after the other, `rows` verified, where nothing else is said."""

    name: str
    shape: str
    steps: int
    rows: int
    tree: bool


@dataclass(frozen=True)
class DraftPlan:
    """`steps` forwards of `model` with `width` rows each, then `rows` for the target. No model: a look-up."""

    kind: DrafterKind
    model: Architecture | None
    steps: int
    width: int
    rows: int
    depth: int  # the most tokens of a round, less one

    @property
    def branches(self) -> bool:
        """Whether the rows are a tree."""
        return self.width > 1 or self.rows > self.depth + 1


def find_kind(name: str) -> DrafterKind:
    """The kind of a name such as 'eagle3' or 'draft model (Qwama-0.5B)'."""
    if not name or (row := pick_row("drafters", name)) is None:
        raise DraftscopeError(
            f"The drafter '{quoted(name)}' is not known; did you mean {names_like('drafters', name)}?"
        )
    return DrafterKind(row["name"], row["shape"], int(row["steps"]), int(row["rows"]), row["tree"] == "1")


def plan_drafting(
    kind: DrafterKind, target: Architecture, form: str = "", draft: Architecture | None = None, trees: bool = False
) -> DraftPlan:
    """The forwards of a round. `form` is 'k=3', 'steps=7,topk=4,draft_tokens=8' and the like; empty is the usual one.

    `trees`: where no form is given, kinds that can draft trees do, as in their papers; servers draft chains.
    """
    steps, width, rows = _read_form(form, kind, trees)
    if not all(0 < entry <= MOST for entry in (steps, width, rows)):
        raise DraftscopeError(f"The form '{quoted(form)}' has a number that is not from 1 to {MOST:,}; give 'k=3'.")
    once = kind.shape in ("block", "heads", "parallel")
    return DraftPlan(
        kind, _drafter(kind, target, draft, steps), 1 if once else steps, rows if once else width, rows, steps
    )


def refuse_form(form: str, kind: DrafterKind) -> None:
    """Raises a DraftscopeError for a form that is not read whole, or for a tree that no drafter can draw."""
    tree = TREE.fullmatch(form.replace(" ", ""))
    if not tree and not CHAIN.fullmatch(form.replace(" ", "")):
        raise DraftscopeError(f"The form '{quoted(form)}': write 'k=3' or 'steps=7,topk=4,draft_tokens=8'.")
    if tree is None:
        return
    steps, width, rows = map(int, tree.groups())
    if kind.shape == "look-up" and width > 1:
        raise DraftscopeError(f"The form '{quoted(form)}': {kind.name} drafts no tree; give 'k={max(steps, 1)}'.")
    most = 1 + width + (steps - 1) * width**2
    if not (steps and width) or not 2 <= rows <= most:
        raise DraftscopeError(
            f"The form '{quoted(form)}' has no tree of {rows} tokens: {steps} steps of the {width} best give 2 to "
            f"{max(most, 2)}, the last token of the text among them; change draft_tokens."
        )


def _read_form(form: str, kind: DrafterKind, trees: bool) -> tuple[int, int, int]:
    """Depth, rows of a draft step, rows that the target verifies."""
    numbers = [int(entry) for entry in re.findall(r"\d+", form)]
    if "draft_tokens" in form and len(numbers) == 3:
        return numbers[0], numbers[1], numbers[2]
    if "nodes" in form:
        return numbers[0], numbers[1], numbers[-1] + 1
    if result := re.search(r"(?:\bk=|draft |length |max |block )(\d+)", form):
        depth = int(result[1]) - ("block" in form)
        return depth, 1, depth + 1
    if result := re.search(r"draft_tokens=(\d+)", form):
        return int(result[1]) - 1, 1, int(result[1])
    tree = kind.tree and trees
    usual = kind.steps if tree or not kind.tree else 3  # the servers' default for EAGLE is three steps
    return usual, 10 if tree else 1, kind.rows if tree or not kind.tree else usual + 1


def _drafter(kind: DrafterKind, target: Architecture, draft: Architecture | None, steps: int) -> Architecture | None:
    if kind.shape == "look-up":
        return None
    if kind.shape in ("model", "parallel"):
        usual = next((small for family, small in USUAL_DRAFTS.items() if target.name.startswith(family)), None)
        return draft or (
            find_architecture(usual) if usual else of_size(target.active / SHARE_OF_TARGET, name="of a usual size")
        )
    if kind.shape == "own layer":  # the target's layer, experts and all
        return replace(target, layers=1, dense_layers=0, attended=0)
    d_ff = target.d_ff or 4 * target.d
    plain = replace(target, experts=0, latent=0, q_rank=0, attended=0, dense_layers=0, d_ff=d_ff, weight_bytes=2.0,
                    kv_heads=min(target.kv_heads, 8), heads=max(1, target.d // target.head_dim))  # fmt: skip
    if kind.shape == "heads":  # a matrix d by d and one for the logits each, without attention
        return replace(plain, layers=1, heads=0, kv_heads=0, d_ff=steps * target.d // 3, vocab=steps * target.vocab)
    if kind.shape == "block":
        return replace(plain, layers=5)
    small = min(target.vocab, 32_000)  # EAGLE-3 drafts the 32,000 most frequent tokens
    layers = 4 if kind.shape == "parallel head" else 1
    wider = d_ff + target.d  # the matrix that joins the features
    return replace(plain, layers=layers, d_ff=wider, vocab=target.vocab if kind.shape == "head" else small)
