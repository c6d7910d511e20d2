"""Opens a session: the settings' drafter, built from the loaded models, ready to decode tokenised prompts."""

from __future__ import annotations

from dataclasses import dataclass

from draftscope.base.costs import Calibration
from draftscope.base.presumed_costs import PresumedCosts
from draftscope.base.text import Ending
from draftscope.decode.lane import Lane
from draftscope.decode.pair import LoadedPair
from draftscope.decode.session import Session
from draftscope.drafters import Parts
from draftscope.drafters.guard import create
from draftscope.verify.tree import Counts
from draftscope.verify.uniforms import Streams


@dataclass(frozen=True)
class MeasuredPair:
    """What was measured of a pair for a drafter that chooses by it: what rounds cost, and the tree with the most tokens
    for its cost. None where the drafter does not choose by it. Costs may be presumed."""

    calibration: Calibration | PresumedCosts | None = None
    tree: Counts | None = None

    def cost(self, like: str, gamma: int, batch: int, context: int) -> float:
        """Of a round of the drafter `like`, in rounds of plain decoding."""
        if self.calibration is None:
            raise RuntimeError("what rounds cost was not measured before this session, so nothing can choose by it")
        return self.calibration.round_cost(like, gamma, batch, context)

    @property
    def words(self) -> str | None:
        """Where the costs come from that the drafter chooses by."""
        costs = self.calibration
        if costs is None:
            return None
        return costs.words if isinstance(costs, PresumedCosts) else f"measured here on {costs.created[:10]}"

    def counts(self) -> Counts:
        """Of the best tree."""
        if self.tree is None:
            raise RuntimeError("no tree was measured before this session; name `chooses_tree` in the DrafterInfo")
        return self.tree


NOTHING_MEASURED = MeasuredPair()  # of a session that is part of a measurement


def open_session(
    pair: LoadedPair, lane: Lane, prompts: list[list[int]], streams: Streams, ends: bool, measured: MeasuredPair
) -> Session:
    """A session of prompts [B][tokens]; row b draws from the b-th of `streams`. `ends`: EOS ends a text."""
    settings, name = lane.settings, lane.info.name
    context = sum(map(len, prompts)) // len(prompts) + settings.max_new_tokens // 2  # about, half way
    ending = Ending(pair.eos if ends else frozenset(), settings.stop, settings.max_new_tokens)
    capacity = lane.capacity(prompts)
    parts = Parts(
        settings=settings,
        options=lane.options,
        sampling=lane.sampling,
        batch=len(prompts),
        capacity=capacity,
        device=pair.target.device,
        tokenizer=pair.tokenizer,
        vocabulary=pair.target.vocabulary,
        target=pair.target,
        draft=pair.draft,
        smaller=pair.smaller,
        text_draft=pair.text_draft,
        heads={kind: head.network for kind, head in pair.heads.items()},
        streams=streams,
        target_continuation=lambda streams: target_continuation(pair, lane, prompts, streams, ends),
        cost=lambda gamma, batch: measured.cost(name, gamma, batch, context),
        cost_like=lambda other, gamma, batch: measured.cost(other, gamma, batch, context),
        counts=measured.counts,
    )
    return Session(pair.target, lane, create(lane.info, parts), prompts, capacity, pair.pieces, ending, streams)


def target_continuation(
    pair: LoadedPair, lane: Lane, prompts: list[list[int]], streams: Streams, ends: bool
) -> list[list[int]]:
    """What the target alone writes after each prompt with the uniforms of `streams`; its forwards are not counted."""
    plain = Lane.of(pair, lane.settings.model_copy(update={"drafter": "plain"}))
    session = open_session(pair.uncounted(), plain, prompts, streams, ends, NOTHING_MEASURED)
    for _ in session.steps():
        pass
    return [list(transcript.tokens) for transcript in session.transcripts]
