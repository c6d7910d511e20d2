"""What was decoded, as values for a notebook: `Result`, one run; `Trace`, any number of runs, such as a file holds.

Both print a short summary, show themselves in a notebook, and give tables, files and pages. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, overload

from draftscope.base.errors import DraftscopeError
from draftscope.trace import files, metrics, tables
from draftscope.trace.events import AnyEvent, Burst, Round, RunEnd, RunStart

if TYPE_CHECKING:
    import pandas as pd

    from draftscope.trace.html import Shown

PAGE = ".html"
CUT = 60  # characters of a prompt or a text in a summary
UNRECORDED = "record = False: this run has no recorded rounds; decode it with record=True."
DRAFTED = '<span style="background: rgba(76, 160, 90, .3)">{}</span>'  # a token that was drafted and accepted


@dataclass(frozen=True, repr=False)
class Recorded:
    """Events, and the tables and files that are made of them. Every table names its run, drafter, prompt, seed,
    temperature and gamma, so that tables of several runs can be joined. Times are milliseconds."""

    events: Sequence[AnyEvent]

    @property
    def tokens(self) -> pd.DataFrame:
        """A row for each emitted token (`trace.tables.TOKENS`): text, p, q, whether it was drafted, when it came.

        Raises `DraftscopeError` if no round was recorded.
        """
        return self._frame("tokens")

    @property
    def rounds(self) -> pd.DataFrame:
        """A row for each round (`trace.tables.ROUNDS`): drafted, accepted and emitted tokens, milliseconds by stage.

        Raises `DraftscopeError` like `tokens`.
        """
        return self._frame("rounds")

    @property
    def decisions(self) -> pd.DataFrame:
        """A row for each verified child (`trace.tables.DECISIONS`): p, q, threshold, random number, result.

        Raises `DraftscopeError` like `tokens`.
        """
        return self._frame("decisions")

    @property
    def arrivals(self) -> list[Round | Burst]:
        """The rounds; of a server's run, whose rounds are not seen, the bursts in which its tokens came."""
        return [event for event in self.events if isinstance(event, Round | Burst)]

    @property
    def round_events(self) -> list[Round]:
        """The rounds as events, with every distribution that was recorded; empty for a run with record=False."""
        return [event for event in self.events if isinstance(event, Round)]

    def save(self, path: str | Path) -> None:
        """Writes the trace, compressed if the name ends in .gz; `draftscope.read` reads it.

        Raises `DraftscopeError` if the file cannot be written.
        """
        files.write(path, self.events)

    def export(self, path: str | Path, what: str = "tokens") -> None:
        """Writes one table (tokens, rounds or decisions) to .csv, .parquet or .jsonl, or to .html a page that plays.

        Raises `DraftscopeError` for another ending, an unknown table, or a file that cannot be written.
        """
        if Path(path).suffix == PAGE:
            self.show().save(path)
        else:
            tables.refuse_format(path)
            tables.write(self._frame(what), path)

    def show(self, height: int = 900) -> Shown:
        """The run as the page plays it, in a notebook cell `height` pixels high; of several runs the first.

        Raises `DraftscopeError` for an unrecorded run.
        """
        from draftscope.trace import html

        return html.Shown(html.page(self.events), height)

    def _frame(self, what: str) -> pd.DataFrame:
        if not self.arrivals:
            raise DraftscopeError(UNRECORDED)
        return tables.frame(self.events, what)


@dataclass(frozen=True, repr=False)
class Result(Recorded):
    """One finished run of one lane: `text`, `token_ids`, `metrics`, and the events that everything else comes from."""

    @property
    def start(self) -> RunStart:
        """What ran: models, settings, prompt, machine."""
        return next(event for event in self.events if isinstance(event, RunStart))

    @cached_property
    def end(self) -> RunEnd | None:
        """Why it ended, and with which text; None where the recording breaks off before."""
        return next((event for event in self.events if isinstance(event, RunEnd)), None)

    @cached_property
    def text(self) -> str:
        """Everything that was written."""
        return "".join(event.text_delta for event in self.arrivals) if self.end is None else self.end.text

    @cached_property
    def token_ids(self) -> list[int]:
        """The ids of all tokens that were written."""
        return [token for event in self.arrivals for token in event.emitted] if self.end is None else self.end.token_ids

    @cached_property
    def metrics(self) -> metrics.Metrics:
        """Counts and times of the run, defined in `draftscope.trace.glossary`.

        Raises `DraftscopeError` like `tokens`.
        """
        if self._unrecorded:
            raise DraftscopeError(UNRECORDED)
        return metrics.fold(self.events)

    @property
    def _unrecorded(self) -> bool:
        return bool(self.token_ids) and not self.arrivals

    def __repr__(self) -> str:
        return f"Result({_sentence(self)}, text={_cut(self.text)!r})"

    def _repr_html_(self) -> str:
        """The numbers, and the text with the drafted tokens marked."""
        recorded = [
            (raw, place < event.accepted)
            for event in self.round_events
            for place, raw in enumerate(event.emitted_raw[: len(event.emitted)])
        ]
        marked = "".join(_marked(raw, drafted) for raw, drafted in recorded) or escape(self.text)
        return (
            f"<p>{escape(_sentence(self))}</p>"
            f"<p style='white-space: pre-wrap'><i>{escape(_cut(self.start.prompt))}</i> {marked}</p>"
        )


@dataclass(frozen=True, repr=False)
class Trace(Recorded, Sequence[Result]):
    """Any number of runs, in the order in which they began: `trace[0].text`, `len(trace)`, `for run in trace`.

    `warning` is empty, or says what a file lacked.
    """

    warning: str = ""

    @cached_property
    def results(self) -> tuple[Result, ...]:
        """The runs, one for each lane."""
        lanes: dict[tuple[str, str, int], list[AnyEvent]] = {}
        for event in self.events:
            lanes.setdefault((event.run, event.lane, event.sequence), []).append(event)
        return tuple(Result(tuple(lane)) for lane in lanes.values())

    @property
    def texts(self) -> list[str]:
        """The text of every run."""
        return [result.text for result in self.results]

    @property
    def runs(self) -> pd.DataFrame:
        """A row for each run: run, lane, drafter, prompt, seed, temperature, gamma, its counts, tokens/s and text.

        Raises `DraftscopeError` like `tokens`.
        """
        return tables.runs([(result.start, result.metrics, result.text) for result in self.results])

    @overload
    def __getitem__(self, index: int) -> Result: ...

    @overload
    def __getitem__(self, index: slice) -> Trace: ...

    def __getitem__(self, index: int | slice) -> Result | Trace:
        if isinstance(index, slice):
            return Trace(tuple(event for result in self.results[index] for event in result.events))
        return self.results[index]

    def __len__(self) -> int:
        return len(self.results)

    def __repr__(self) -> str:
        lines = [f"  {number}: {_sentence(result)}" for number, result in enumerate(self.results[:10])]
        more = [f"  and {len(self) - 10} more"] if len(self) > 10 else []
        return "\n".join([f"Trace of {len(self)} {'run' if len(self) == 1 else 'runs'}", *lines, *more])

    def _repr_html_(self) -> str:
        if any(result._unrecorded for result in self.results):
            return f"<pre>{escape(repr(self))}</pre>"
        table: str = self.runs.to_html(index=False, max_rows=20)
        return table


def read(path: str | Path) -> Trace:
    """The runs of a trace file, as `Result.save`, `draftscope decode --trace` and the page write it. Loads no model.

    Raises `DraftscopeError` for a file that is no trace or tells an impossible history (`trace.files.read`). Of a
    truncated file the whole events are returned, and `warning` says so.
    """
    recording = files.read(path)
    return Trace(recording.events, recording.warning)


def _sentence(result: Result) -> str:
    start = result.start
    mark = ", lossy" if not start.exact else ", unchecked" if start.unchecked else ""
    drafter = f"{start.drafter}{mark}, T = {start.settings.get('temperature', 0):g}"
    if result._unrecorded:
        return f"{drafter}, {len(result.token_ids)} tokens, not recorded"
    counts = result.metrics
    speed = f", {counts.tokens_per_s:.1f} tokens/s" if counts.tokens_per_s else ""
    return f"{drafter}, {counts.tokens} tokens, {counts.tokens_per_round:.2f} a round{speed}"


def _cut(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= CUT else words[:CUT].rstrip() + " ..."


def _marked(raw: str, drafted: bool) -> str:
    """A token's text for HTML."""
    text = escape(raw.encode("latin-1").decode("utf-8", "replace"))
    return DRAFTED.format(text) if drafted else text
