"""Opens a session: the settings' drafter, built from the loaded models, ready to decode tokenised prompts."""

from __future__ import annotations

from dataclasses import dataclass

from draftscope import drafters
from draftscope.base.costs import Calibration
from draftscope.base.text import Ending
from draftscope.decode.pair import THROUGH_TEXT, LoadedPair
from draftscope.decode.session import Session
from draftscope.drafters import Parts
from draftscope.drafters.guard import create
from draftscope.drafters.settings import Settings
from draftscope.verify.sampling import Sampling
from draftscope.verify.tree import Counts
from draftscope.verify.uniforms import Streams


@dataclass(frozen=True)
class MeasuredPair:
    """What was measured of a pair for a drafter that chooses by it: what rounds cost, and the tree with the most tokens
    for its cost. None where the drafter does not choose by it."""

    calibration: Calibration | None = None
    tree: Counts | None = None

    def cost(self, like: str, gamma: int, batch: int, context: int) -> float:
        """Of a round of the drafter `like`, in rounds of plain decoding."""
        if self.calibration is None:
            raise RuntimeError("what rounds cost was not measured before this session, so nothing can choose by it")
        return self.calibration.round_cost(like, gamma, batch, context)

    def counts(self) -> Counts:
        """Of the best tree."""
        if self.tree is None:
            raise RuntimeError("no tree was measured before this session; name `chooses_tree` in the DrafterInfo")
        return self.tree


NOTHING_MEASURED = MeasuredPair()  # of a session that is part of a measurement


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
        cost=lambda gamma, batch: measured.cost(info.name, gamma, batch, context),
        cost_like=lambda name, gamma, batch: measured.cost(name, gamma, batch, context),
        counts=measured.counts,
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
