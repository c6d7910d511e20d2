"""Which drafters the loaded models can run, and why not the others."""

from __future__ import annotations

from dataclasses import dataclass

from draftscope import drafters
from draftscope.base.errors import DraftscopeError
from draftscope.decode.pair import THROUGH_TEXT, LoadedPair
from draftscope.drafters import DrafterInfo
from draftscope.drafters.checked import is_unchecked
from draftscope.drafters.heads import hybrid
from draftscope.models.model import Model


@dataclass(frozen=True)
class Availability:
    """A drafter, and whether the loaded models can run it."""

    name: str
    title: str
    exact: bool
    available: bool
    why_not: str
    paper: str
    uses: tuple[str, ...]
    is_detour: bool = False
    unchecked: bool = False  # of another package, and `check` has not passed on this target: `exact` is its word


@dataclass(frozen=True)
class Obstacle:
    """Why a drafter cannot run: in a few words for a list, and as a sentence with the remedy."""

    why: str
    sentence: str


def availabilities(pair: LoadedPair) -> list[Availability]:
    """Every known drafter."""
    return [_availability(pair, info) for info in drafters.known().values()]


def _availability(pair: LoadedPair, info: DrafterInfo) -> Availability:
    problem = obstacle(pair, info)
    return Availability(
        name=info.name,
        title=info.title,
        exact=info.exact,
        available=problem is None,
        why_not="" if problem is None else problem.why,
        paper=info.paper,
        uses=info.uses,
        is_detour=is_detour(pair, info),
        unchecked=is_unchecked(info, pair.target.digest),
    )


def is_detour(pair: LoadedPair, info: DrafterInfo) -> bool:
    """Whether it drafts through text though the draft has the target's tokenizer: it can be chosen, but is measured
    beside no others."""
    return info.needs_text_draft and pair.foreign is None


def refuse_unavailable(pair: LoadedPair, info: DrafterInfo) -> None:
    """Raises `DraftscopeError` if these models cannot run the drafter."""
    problem = obstacle(pair, info)
    if problem is not None:
        raise DraftscopeError(problem.sentence)


def default_drafter(pair: LoadedPair) -> str:
    """The drafter of a run that names none: that of a known pair, else the draft model, else an EAGLE-3 head with
    copying, else the first loaded head, else n-grams of the text."""
    if pair.usual is not None:
        return pair.usual
    if pair.text_draft is not None:
        return "draft" if pair.foreign is None else THROUGH_TEXT
    if obstacle(pair, hybrid.INFO) is None:
        return hybrid.INFO.name
    return next((kind for kind in pair.heads if kind in drafters.known()), "ngram")


def obstacle(pair: LoadedPair, info: DrafterInfo) -> Obstacle | None:
    """The first reason why these models cannot run the drafter; None if they can."""
    name, target = info.name, pair.target.name
    if (info.needs_draft or info.needs_text_draft) and pair.text_draft is None:
        sentence = f"The drafter '{name}' needs a draft model; name one with --draft, or choose 'ngram'."
        return Obstacle("no draft model is loaded", sentence)
    if info.needs_draft and pair.draft is None:
        assert pair.foreign is not None
        return Obstacle(
            "the draft has another tokenizer",
            f"The drafter '{name}' needs a draft with the target's tokenizer, and '{pair.foreign.model.name}' has "
            f"another; choose '{THROUGH_TEXT}' or 'tli'.",
        )
    if info.needs_head and info.needs_head not in pair.heads:
        return Obstacle(
            f"no {info.needs_head} head is loaded",
            f"The drafter '{name}' needs a head of the kind '{info.needs_head}', trained for '{target}'; name one as "
            f"--drafter {name}:MODEL, or choose 'ngram'.",
        )
    if unfit := info.unfit(pair.target):
        return Obstacle(unfit, f"'{name}' cannot draft for '{target}': {unfit}; choose 'draft' or 'ngram'.")
    if (limited := _takes_chains_only(pair, info)) is not None:
        return Obstacle(
            f"'{limited.name}' takes no trees", f"{limited.limits} Instead of '{name}' choose 'draft' or 'ngram'."
        )
    return None


def _takes_chains_only(pair: LoadedPair, info: DrafterInfo) -> Model | None:
    """A model that takes chains only, if the drafter grows trees."""
    used = (pair.target, pair.draft if info.needs_draft else None)
    limited = [model for model in used if model is not None and not model.trees]
    return limited[0] if limited and info.grows_trees else None
