"""Several prompts decoded together with one drafter: the events of each as those of a run by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from draftscope.base.text import Pieces
from draftscope.decode.recorder import Recorder
from draftscope.decode.session import Session, Step
from draftscope.trace import events as trace


def batch_events(
    session: Session, starts: Sequence[trace.RunStart], rule: str, pieces: Pieces, record: bool
) -> Iterator[trace.AnyEvent]:
    """The events of the session's sequences, whose runs begin with `starts` [B]; rounds only with `record`.

    The session's clock is that of every run, so a run's speed is the one it had beside the others. Closing the iterator
    stops after the current round.
    """
    yield from starts
    session.prefill()
    for start in starts:
        read = start.prompt_tokens - 1
        yield trace.Prefill(run=start.run, lane=start.lane, tokens=read, start=0.0, end=session.prefill_ms)
    for step in session.steps():
        for row, sequence in enumerate(step.rows):
            start = starts[sequence]
            event = Recorder(start.run, start.lane, 0, row, rule, pieces).round(step) if record else None
            if event is not None:
                yield event
            yield from _end(session, start, step, row, sequence)


def _end(session: Session, start: trace.RunStart, step: Step, row: int, sequence: int) -> Iterator[trace.RunEnd]:
    """The end of a run, if its text ended in this round."""
    added = step.fed[row]
    if added is None or added.cut is None:
        return
    transcript = session.transcripts[sequence]
    yield trace.RunEnd(
        run=start.run,
        lane=start.lane,
        reason=added.cut,
        text=transcript.text,
        token_ids=list(transcript.tokens),
        target_forwards=step.index + 1,
        end=step.end,
    )
