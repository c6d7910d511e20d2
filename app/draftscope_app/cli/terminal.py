"""What people see: tables, progress and remarks. In a pipe tables are plain aligned text; progress of what
takes minutes is a line on stderr now and then, other progress is silent."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from shutil import get_terminal_size
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING

from draftscope.base.printable import printable
from draftscope.base.progress import Progress as Stand
from draftscope.base.progress import time_left

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn
    from rich.table import Table as RichTable

Cells = Sequence[str]
LINE_S = 15.0
STEP_S = 4.0  # with the second between two words of a loader, nobody waits five for the next
ERASE = "\r\x1b[K"  # the line on a terminal
NUMBER = re.compile(r"\b[\d,]+\b")


@dataclass(frozen=True)
class Table:
    """A head and rows of as many cells; the columns in `numbers`, counted from 0, are aligned to the right."""

    head: Cells
    rows: Sequence[Cells] = field(default_factory=list)
    numbers: frozenset[int] = frozenset()
    title: str = ""

    def plain(self) -> str:
        """Aligned text without a colour: two spaces between columns, however wide the terminal."""
        from tabulate import tabulate

        sides = ["right" if column in self.numbers else "left" for column in range(len(self.head))]
        shown = tabulate([self.head, *self._cells()], tablefmt="plain", colalign=sides, disable_numparse=True)
        return f"{self.title}\n{shown}" if self.title else shown

    def rich(self) -> RichTable:
        """The same for a terminal. Cells are text: what looks like markup in them stays as it is."""
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(box=box.SIMPLE_HEAD, title=self.title or None, title_justify="left", pad_edge=False)
        for index, name in enumerate(self.head):
            table.add_column(name, justify="right" if index in self.numbers else "left", overflow="fold")
        for row in self._cells():
            table.add_row(*map(Text, row))
        return table

    def _cells(self) -> list[list[str]]:
        return [[printable(cell, keep="\n") for cell in row] for row in self.rows]


def say(text: str) -> None:
    """Prints text with the names and words of others in it on stdout."""
    print(printable(text, keep="\n\t"))


def show(table: Table) -> None:
    """Prints a table on stdout."""
    if not sys.stdout.isatty():
        print(table.plain())
        return
    from rich.console import Console

    Console().print(table.rich())


def markdown(text: str) -> None:
    """Prints Markdown: as it is in a pipe, with its tables drawn on a terminal."""
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))


def print_note(sentence: str) -> None:
    """A sentence beside the output, on stderr."""
    print(f"draftscope: {printable(sentence)}", file=sys.stderr)


def print_status(words: str) -> None:
    """What is going on, for people only: nothing where stderr is no terminal."""
    if sys.stderr.isatty():
        from rich.console import Console

        Console(stderr=True).print(words, style="dim", highlight=False)


def progress(unit: str) -> Progress:
    """A bar on a terminal's stderr that is gone when it ends; silent elsewhere. stdout stays as it is."""
    from rich import progress as parts

    return _bar(parts.MofNCompleteColumn(), parts.TextColumn(unit))


def share_bar() -> Progress:
    """The same for something of which a share is done; its task has a field `left`, the time left in words."""
    from rich import progress as parts

    return _bar(parts.TaskProgressColumn(), parts.TextColumn("{task.fields[left]}"))


def _bar(*columns: ProgressColumn) -> Progress:
    from rich import progress as parts
    from rich.console import Console

    return parts.Progress(
        parts.TextColumn("{task.description}"),
        parts.BarColumn(),
        *columns,
        parts.TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        disable=not sys.stderr.isatty(),
    )


@contextmanager
def show_progress(what: str) -> Iterator[Callable[[Stand], None]]:
    """Shows how far a measurement is, once that is known: a bar on a terminal's stderr; in a pipe a line on stderr
    where it turns to something else, not only to another number, and every `LINE_S` seconds."""
    if sys.stderr.isatty():
        with share_bar() as bar:
            task = bar.add_task(what, total=1.0, left="", visible=False)
            yield lambda now: bar.update(
                task, description=now.doing, completed=now.share, left=time_left(now.seconds_left), visible=True
            )
        return
    doing, shown = "", monotonic()

    def line(now: Stand) -> None:
        nonlocal doing, shown
        if (words := NUMBER.sub("", now.doing)) != doing or monotonic() - shown > LINE_S:
            doing, shown = words, monotonic()
            print_note(f"{what}: {now.words}")

    yield line


@contextmanager
def show_loading() -> Iterator[Callable[[Stand], None]]:
    """Shows how far loading is: a bar on a terminal's stderr; in a pipe a line every `STEP_S` seconds, so that what
    is loaded at once says nothing."""
    if sys.stderr.isatty():
        with show_progress("Loading") as watch:
            yield watch
        return
    say = loading_lines()
    yield lambda now: say(f"Loading: {now.words}.", False)


def loading_lines(clock: Callable[[], float] = monotonic) -> Callable[[str, bool], None]:
    """Says sentences about loading on stderr, and with each whether it is the last one, which stays. On a terminal
    another one takes its place; in a pipe there is one every `STEP_S` seconds."""
    shown = clock()

    def say(sentence: str, over: bool) -> None:
        nonlocal shown
        if sys.stderr.isatty():
            text, end = printable(sentence), "\n" if over else ""
            width = len(text) if over else get_terminal_size().columns - 1
            sys.stderr.write(f"{ERASE}{text[:width]}{end}")
            sys.stderr.flush()
        elif over or clock() - shown >= STEP_S:
            shown = clock()
            print_note(sentence)

    return say


@contextmanager
def live_table(head: Cells) -> Iterator[tuple[Callable[[Cells, str], None], Callable[[str], None]]]:
    """A table on a terminal that grows row by row; yields how to add a row in a style, and how to set its caption."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    table = Table(head).rich()
    table.caption_justify = "left"
    with Live(table, console=Console(), vertical_overflow="visible", redirect_stderr=False) as live:

        def add(row: Cells, style: str) -> None:
            first, *rest = row
            table.add_row(Text(first, style=style), *map(Text, rest))
            live.refresh()

        def caption(words: str) -> None:
            table.caption = Text(words)

        yield add, caption
        table.caption = None


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Ctrl-C as a question that is asked before every round, so that a run ends whole and its trace with it.

    Yields the question. A second Ctrl-C does not wait for the round.
    """
    interrupts: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if interrupts:
            signal.default_int_handler(number, frame)
        interrupts.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(interrupts)
    finally:
        signal.signal(signal.SIGINT, before)
