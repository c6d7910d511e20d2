"""Opens a session: the settings' drafter, built from the loaded models, ready to decode tokenised prompts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from draftscope import drafters
from draftscope.base.text import Ending
from draftscope.decode.pair import THROUGH_TEXT, LoadedPair
from draftscope.decode.session import Session
from draftscope.drafters import DrafterInfo, Parts
from draftscope.drafters.guard import create
from draftscope.drafters.settings import Settings
from draftscope.verify.sampling import Sampling
from draftscope.verify.tree import Counts
from draftscope.verify.uniforms import Streams


@dataclass(frozen=True)
class MeasuredPair:
    """What is measured of a pair for drafters that choose by it. Called only by a drafter that does."""

    # the drafter that chooses by it, the one whose round it is, gamma, batch, context -> a round, in rounds of plain
    cost: Callable[[str, str, int, int, int], float]
    tree: Callable[[DrafterInfo, Settings], Counts]  # the tree with the most tokens for its cost


def open_session(
    pair: LoadedPair, prompts: list[list[int]], settings: Settings, streams: Streams, ends: bool, measured: MeasuredPair
) -> Session:
    """A session of prompts [B][tokens]; row b draws from the b-th of `streams`. `ends`: EOS ends a text."""
    settings = through_text(pair, settings)
    info = drafters.find(settings.drafter)
    nodes = info.max_nodes(settings)
    context = sum(map(len, prompts)) // len(prompts) + settings.max_new_tokens // 2  # about, half way
    ending = Ending(pair.eos if ends else frozenset(), settings.stop, settings.max_new_tokens)
    parts = Parts(
        settings=settings,
        options=settings.options(info.options),
        sampling=Sampling.of(settings),
        batch=len(prompts),
        capacity=max(len(prompt) for prompt in prompts) + settings.max_new_tokens + nodes + 1,
        device=pair.target.device,
        tokenizer=pair.tokenizer,
        vocabulary=pair.target.vocabulary,
        target=pair.target,
        draft=pair.draft,
        smaller=pair.smaller,
        text_draft=pair.text_draft,
        heads={kind: head.network for kind, head in pair.heads.items()},
        streams=streams,
        target_continuation=lambda streams: target_continuation(pair, prompts, settings, streams, ends),
        cost=lambda gamma, batch: measured.cost(info.name, info.name, gamma, batch, context),
        cost_like=lambda name, gamma, batch: measured.cost(info.name, name, gamma, batch, context),
        counts=lambda: measured.tree(info, settings),
    )
    drafter, rule = create(info, parts), info.rule_of(settings)
    return Session(pair.target, drafter, prompts, settings, rule, pair.pieces, ending, nodes, streams)


def through_text(pair: LoadedPair, settings: Settings) -> Settings:
    """The settings, but a draft model with another tokenizer drafts through text."""
    if settings.drafter != "draft" or pair.foreign is None:
        return settings
    return settings.model_copy(update={"drafter": THROUGH_TEXT})


def target_continuation(
    pair: LoadedPair, prompts: list[list[int]], settings: Settings, streams: Streams, ends: bool
) -> list[list[int]]:
    """What the target alone writes after each prompt with the uniforms of `streams`; its forwards are not counted."""
    plain = settings.model_copy(update={"drafter": "plain"})
    session = open_session(pair.uncounted(), prompts, plain, streams, ends, NOTHING_MEASURED)
    for _ in session.steps():
        pass
    return [list(transcript.tokens) for transcript in session.transcripts]


def fixed_tree(counts: Counts) -> MeasuredPair:
    """No measurements, and `counts` as the tree of a drafter that would choose one by them."""
    return MeasuredPair(_not_measured, lambda _, __: counts)


def _not_measured(*_: object) -> NoReturn:
    raise RuntimeError("this session is part of a measurement, so its drafter cannot choose by what was measured")


NOTHING_MEASURED = MeasuredPair(_not_measured, _not_measured)
