"""How often the child of each rank is the accepted one, from which Sequoia's tree is built (2402.12374, section 3.2).

Measured in real rounds on the shipped prompts, with the run's own settings and trees of one level, so that every round
verifies children of an accepted parent. No run's clock counts it.
"""

from __future__ import annotations

from dataclasses import replace

from draftscope.base.progress import Pace, Watcher, unseen
from draftscope.base.prompts import shipped
from draftscope.base.steps import Steps
from draftscope.decode.lane import Lane
from draftscope.decode.open_session import MeasuredPair, open_session
from draftscope.decode.pair import LoadedPair
from draftscope.verify.tree import even
from draftscope.verify.uniforms import Streams

WIDTH = 6  # ranks
PROMPT, TOKENS = 64, 48  # tokens read and written of each text; in a short context fewer


def by_rank(pair: LoadedPair, lane: Lane, watch: Watcher = unseen) -> Steps[None, tuple[float, ...]]:
    """For each rank, the share of rounds in which the drafter's child of that rank was accepted. A step is a round, or
    the forwards of the prompts."""
    width = min(WIDTH, pair.target.vocabulary)
    room = min(model.context for model in pair.models)
    read = min(PROMPT, room // 2)
    settings = lane.settings.model_copy(update={"tree_nodes": width, "max_new_tokens": min(TOKENS, room - read)})
    prompts = [pair.tokenizer(prompt.text)["input_ids"][:read] for prompt in shipped()]
    streams = Streams(settings.seed, tuple(range(len(prompts))))
    measured = MeasuredPair(tree=even((width,)))
    session = open_session(pair.uncounted(), replace(lane, settings=settings), prompts, streams, False, measured)
    hits, rounds, pace = [0] * width, 0, Pace(watch)
    pace.begin(len(prompts) * settings.max_new_tokens)
    session.prefill()
    yield None
    for step in session.steps():
        for live, path, never_accepted in zip(step.live, step.paths, step.tree.never_accepted.tolist(), strict=True):
            if live and never_accepted and not never_accepted[0]:
                rounds += 1
                for node in path:
                    hits[node] += 1
        pace.advance(sum(len(path) + 1 for path, live in zip(step.paths, step.live, strict=True) if live), "rounds")
        yield None
    return tuple(hit / rounds for hit in hits)
