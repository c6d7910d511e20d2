"""Checks what a drafter from elsewhere returns, each round: a wrong field is one sentence, not a wrong text. And gives
it nothing of what will judge it: no random number but its draws, no seed, no text that is still to come.

It costs a few readings from the device a round. Whether drawn tokens follow the distributions is a question of many
rounds, which `draftscope check` answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from traceback import extract_tb
from typing import Any, NoReturn

import torch
from pydantic import BaseModel
from torch import Tensor

from draftscope.base.errors import DraftscopeError, quoted
from draftscope.drafters.drafter import Drafter, DrafterInfo, Outcome, Parts, State
from draftscope.drafters.settings import Settings
from draftscope.models.model import Model
from draftscope.trace.events import Annotation
from draftscope.verify.tree import DraftTree, Topology
from draftscope.verify.uniforms import DraftUniforms

MASS = 1e-3  # by how much probabilities may miss 1
PACKAGE = Path(__file__).parents[1]


def guarded_info(info: DrafterInfo) -> DrafterInfo:
    """The entry of a drafter from elsewhere, whose own functions end no list of drafters where they fail."""

    def nodes(settings: Settings) -> int:
        with _named(info.name, "when it counts its nodes"):
            return info.max_nodes(settings)

    def unfit(target: Model) -> str:
        try:
            return info.unfit(target)
        except Exception as error:
            return f"its 'unfit' fails ({type(error).__name__}: {quoted(str(error))})"

    return replace(info, nodes=nodes, unfit=unfit)


def create(info: DrafterInfo, parts: Parts[Any]) -> Drafter:
    """The drafter; one from elsewhere is checked in every round."""
    if not info.source:
        return info.create(parts)
    with _named(info.name, "when it is made"):
        made = info.create(without_judge(info, parts))
    if not isinstance(made, Drafter):
        raise DraftscopeError(
            f"The drafter '{info.name}' makes {quoted(made)}; its `create` must return a draftscope.Drafter."
        )
    most = parts.target.layers
    if not isinstance(made.layers, tuple) or not all(layer in range(most + 1) for layer in made.layers):
        raise DraftscopeError(
            f"The drafter '{info.name}' has layers = {quoted(made.layers)}; give a tuple of some of 0 to {most}."
        )
    return Guarded(made, info.name, parts.vocabulary, info.max_nodes(parts.settings))


def without_judge(info: DrafterInfo, parts: Parts[Any]) -> Parts[Any]:
    """The parts without what leads to the numbers that judge the drafter, or to the text that the target will write."""
    name, source = info.name, info.source

    def refuse(*_: object) -> NoReturn:
        raise DraftscopeError(
            f"The costs of '{name}' of {source} are not calibrated, only built-in ones; let it draft a fixed length."
        )

    def keep_back(*_: object) -> NoReturn:
        raise DraftscopeError(
            f"The drafter '{name}' of {source} asks for the text to come; draft from the text so far."
        )

    return replace(
        parts,
        settings=parts.settings.model_copy(update={"seed": 0}),
        streams=parts.streams.apart(),
        target_continuation=keep_back,
        cost=refuse,
        cost_like=refuse,
    )


class Guarded(Drafter):
    """A drafter from elsewhere. Raises `DraftscopeError` with its name, the round and the field that is wrong."""

    def __init__(self, drafter: Drafter, name: str, vocabulary: int, max_nodes: int) -> None:
        self._drafter = drafter
        self._name = name
        self._vocabulary = vocabulary
        self._max_nodes = max_nodes
        self._round = 0
        self.layers = drafter.layers
        self.reads_argmax = drafter.reads_argmax

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        with _named(self._name, "in begin"):
            self._drafter.begin(prompts, features)

    def propose(self, state: State, depth: int) -> DraftTree:
        self._round = state.round
        texts = [list(text) for text in state.texts]  # copies, as of the numbers: on CUDA all lie in one storage
        given = replace(state, texts=texts, uniforms=DraftUniforms(state.uniforms.draft.clone()))
        with self._during("propose"):
            tree = self._drafter.propose(given, depth)
        if problem := _problem(tree, len(state.texts), self._vocabulary, self._max_nodes):
            raise DraftscopeError(
                f"The drafter '{self._name}' proposed a wrong tree in round {state.round}: {problem}."
            )
        return tree

    def overlap_start(self, tree: DraftTree) -> None:
        with self._during("overlap_start"):
            self._drafter.overlap_start(tree)

    def observe(self, outcome: Outcome) -> None:
        with self._during("observe"):
            self._drafter.observe(replace(outcome, uniforms=None))

    def select_rows(self, rows: list[int]) -> bool:
        with self._during("select_rows"):
            return self._drafter.select_rows(rows)

    def annotations(self, row: int) -> Sequence[Annotation]:
        with self._during("annotations"):
            said = list(self._drafter.annotations(row))
        if wrong := [event for event in said if not isinstance(event, BaseModel)]:
            raise DraftscopeError(
                f"The drafter '{self._name}' annotates round {self._round} with {quoted(wrong[0])}, which is no event."
            )
        return said

    def _during(self, method: str) -> Any:
        return _named(self._name, f"in {method}, round {self._round}")


@contextmanager
def _named(name: str, where: str) -> Iterator[None]:
    """An exception of the drafter's code becomes a sentence that names the drafter, the place and the line."""
    try:
        yield
    except DraftscopeError:
        raise
    except (Exception, SystemExit) as error:
        frames = extract_tb(error.__traceback__)
        its = next((frame.filename for frame in frames if not Path(frame.filename).is_relative_to(PACKAGE)), "")
        line = next((frame.lineno for frame in reversed(frames) if frame.filename == its), 0)
        at = f" at {Path(its).name}, line {line}" if its else ""
        what = f"{type(error).__name__}{at}" + (f": {quoted(str(error))}" if str(error) else "")
        raise DraftscopeError(f"The drafter '{name}' failed {where}: {what}.") from error


def _problem(tree: object, batch: int, vocabulary: int, max_nodes: int) -> str:
    """What is wrong with a proposed tree; empty if nothing is."""
    if not isinstance(tree, DraftTree):
        return f"it is {quoted(tree)}, not the DraftTree that sampled_chain or deterministic_chains makes"
    topology: object = tree.topology
    if not isinstance(topology, Topology):
        return f"topology is {quoted(topology)}, not a Topology"
    nodes = tree.nodes
    if topology.batch != batch:
        return f"it has trees for {topology.batch} sequences instead of {batch}"
    if nodes > max_nodes:
        return f"it has {nodes} nodes, and its options declare at most {max_nodes} (`DrafterOptions.nodes`)"
    shapes: dict[str, tuple[int, ...]] = {
        "tokens": (batch, nodes), "proposal_row": (batch, nodes + 1),
        "shown_row": (batch, nodes + 1), "never_accepted": (batch, nodes),
    }  # fmt: skip
    for name, shape in shapes.items():
        value = getattr(tree, name)
        if not isinstance(value, Tensor) or tuple(value.shape) != shape:
            given = f"the shape {list(value.shape)}" if isinstance(value, Tensor) else quoted(value)
            return f"{name} has {given} instead of {list(shape)}"
    q, rows = tree.distributions, 0
    if q is not None:
        if not isinstance(q, Tensor) or q.dtype != torch.float32:
            return f"distributions is {q.dtype if isinstance(q, Tensor) else quoted(q)} instead of torch.float32"
        if q.dim() != 3 or (len(q), q.shape[2]) != (batch, vocabulary):
            return f"distributions has the shape {list(q.shape)} instead of [{batch}, rows, {vocabulary}]"
        rows = q.shape[1]
    return _wrong_words(tree) or (_wrong_values(tree, rows, vocabulary) if nodes else "")


def _wrong_words(tree: DraftTree) -> str:
    """What is wrong with what a trace records of a tree."""
    if not isinstance(tree.origin, Sequence) or len(tree.origin) != tree.topology.batch:
        return f"origin is {quoted(tree.origin)} instead of a sequence of texts for each of {tree.topology.batch}"
    for row in tree.origin:
        if not isinstance(row, Sequence) or len(row) != tree.nodes or not all(isinstance(text, str) for text in row):
            return f"origin has {quoted(row)} instead of {tree.nodes} texts"
    if not isinstance(tree.forward_ms, tuple) or not all(isinstance(ms, float) for ms in tree.forward_ms):
        return f"forward_ms is {quoted(tree.forward_ms)} instead of a tuple of milliseconds"
    return ""


def _wrong_values(tree: DraftTree, rows: int, vocabulary: int) -> str:
    """What is wrong with the numbers, in one reading from the device."""
    dtypes = {"tokens": torch.long, "proposal_row": torch.long, "shown_row": torch.long, "never_accepted": torch.bool}
    for name, dtype in dtypes.items():
        if getattr(tree, name).dtype != dtype:
            return f"{name} is of {getattr(tree, name).dtype} instead of {dtype}"
    ends = [tree.tokens.min(), tree.tokens.max(), tree.proposal_row.min(), tree.proposal_row.max()]
    ends += [tree.shown_row.min(), tree.shown_row.max()]
    low, high, first, last, shown, most = torch.stack(ends).tolist()
    if not 0 <= low <= high < vocabulary:
        return f"tokens holds {low if low < 0 else high}, and the target knows 0 to {vocabulary - 1}"
    for name, least, largest in (("proposal_row", first, last), ("shown_row", shown, most)):
        if least < -1 or largest >= rows:
            return f"{name} holds {least if least < -1 else largest}, and distributions has {rows} rows"
    return _wrong_distributions(tree) or _wrong_draws(tree)


def _wrong_distributions(tree: DraftTree) -> str:
    if tree.distributions is None or not tree.distributions.shape[1]:
        return ""
    sums = tree.distributions.sum(-1)
    least, furthest = torch.stack([tree.distributions.min(), (sums - 1).abs().max()]).tolist()
    if not furthest <= MASS:  # also where one is NaN
        wrong = sums.flatten()[(sums.flatten() - 1).abs().nan_to_num(torch.inf).argmax()].item()
        return f"distributions has a row that sums to {wrong:.4g} instead of 1"
    return f"distributions holds a negative probability, {least:.3g}" if least < 0 else ""


def _wrong_draws(tree: DraftTree) -> str:
    """Drawn children must be declared as such, and possible under the distribution that they came from."""
    row = tree.proposal_row.gather(1, tree.topology.parents + 1)  # [B, N]: of each node's siblings
    drawn = row >= 0
    if tree.distributions is not None and tree.distributions.shape[1]:
        q = tree.distributions[torch.arange(len(row), device=row.device)[:, None], row.clamp(min=0), tree.tokens]
        impossible = (drawn & ~tree.never_accepted & (q <= 0)).any()
    else:
        impossible = drawn.any()
    some, every, never = torch.stack([drawn.any(), drawn.all(), impossible]).tolist()
    said = {"none": not some, "all": bool(every), "some": True}.get(tree.drawn)
    if not said:
        declared = "all" if every else "some" if some else "none"
        return f"drawn is {tree.drawn!r}, but proposal_row says {declared!r}"
    return "a drawn token has probability 0 in its distribution" if never else ""
