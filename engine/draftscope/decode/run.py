"""Prompts decoded with one drafter, while they decode: one by itself, or several together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from draftscope.base.cores import OtherCores
from draftscope.base.text import Pieces
from draftscope.decode.recorder import Recorder
from draftscope.decode.session import Session, Step
from draftscope.models.forward import experts
from draftscope.trace import events as trace


class Run:
    """One lane: one prompt decoded with one drafter. Made by `DecodingEngine.session`."""

    def __init__(self, session: Session, start: trace.RunStart, recorder: Recorder | None) -> None:
        self._session = session
        self._start = start
        self._recorder = recorder
        self._rounds = 0
        session.watch.settles = recorder is not None  # which reads from the device between rounds
        self._cores: OtherCores | None = None  # from the prefill on

    @property
    def clock_ms(self) -> float:
        """Work of this lane so far, in ms, without recording."""
        return self._session.watch.now

    @property
    def text(self) -> str:
        return self._session.transcripts[0].text

    @property
    def token_ids(self) -> list[int]:
        return list(self._session.transcripts[0].tokens)

    def steps(self) -> Iterator[Step]:
        """The rounds, unrecorded."""
        for step in self._session.steps():
            self._rounds += 1
            yield step

    def events(self) -> Iterator[trace.AnyEvent]:
        """`RunStart`, `Prefill`, each `Round` if recorded, `RunEnd`. Closing it stops after the current round.

        A long prompt has a `Prefill` for each part that has been read.
        """
        yield self._start
        self._cores = OtherCores()
        for read in self._session.reading():
            yield self._prefill(read)
        yield self._prefill(self._start.prompt_tokens - 1)
        cut: str | None = None
        with self._listening():
            for step in self.steps():
                fed = step.fed[0]
                cut = fed.cut if fed else None
                if self._recorder is None:
                    continue
                event = self._recorder.round(step, self._session.annotations(self._recorder.row))
                if event is not None:
                    yield event
        yield self._end(cut or "length")

    def _prefill(self, read: int) -> trace.Prefill:
        run, lane = self._start.run, self._start.lane
        return trace.Prefill(run=run, lane=lane, tokens=read, start=0.0, end=self._session.prefill_ms)

    def cancel(self) -> trace.RunEnd:
        """The last event of a run that is stopped before its end."""
        return self._end("cancelled")

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """If the run is recorded and the target has experts, records which experts its verify forwards use."""
        watch = experts.watch(self._session.target.network) if self._recorder is not None else None
        self._session.experts = watch
        try:
            yield
        finally:
            if watch is not None:
                watch.close()

    def _end(self, reason: Any) -> trace.RunEnd:
        return trace.RunEnd(
            run=self._start.run,
            lane=self._start.lane,
            reason=reason,
            text=self.text,
            token_ids=self.token_ids,
            target_forwards=self._rounds,
            end=self.clock_ms,
            other_cores=self._cores.lap() if self._cores else None,
        )


def batch_events(
    session: Session, starts: Sequence[trace.RunStart], pieces: Pieces, record: bool
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
            event = Recorder(start, pieces, row).round(step) if record else None
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
