"""`draftscope museum`: published bugs, rebuilt small, each audited as it was and as it was mended."""

from __future__ import annotations

import json as jsonlib
from typing import TYPE_CHECKING

from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from draftscope.servers.audit.audit import AuditReport
    from draftscope.servers.museum.exhibits import Exhibit
    from draftscope.servers.museum.tour import Exhibited

TARGET = "draft"  # the smallest model that always comes with the program is what these servers should write
HEAD = ("bug", "program", "as it was", "mended", "would have seen")


def museum(json: command_options.Json = False) -> int:
    """Audit published bugs of speculative decoding, rebuilt small, and their mends.

    Each is a server in this process with the wrong mechanism; the audit is that of 'draftscope audit'. The exit code is
    1 where a bug was not convicted, or its mend was not acquitted.
    """
    from draftscope.base.load_settings import LoadSettings
    from draftscope.servers.museum.exhibits import NOT_REPRODUCED
    from draftscope.servers.museum.tour import tour

    engine, shown = command_options.load(LoadSettings(target=TARGET, dtype="float32", device="cpu", threads=1)), []
    for exhibited in tour(engine):
        shown.append(exhibited)
        if not json:
            _print(exhibited)
    if json:
        print(jsonlib.dumps([_as_json(exhibited) for exhibited in shown]))
    else:
        rows = [(exhibited.exhibit.number, exhibited.exhibit.program, *_verdicts(exhibited)) for exhibited in shown]
        terminal.show(terminal.Table(HEAD, rows))
        print()
        terminal.show(terminal.Table(("not reproduced", "what it is"), NOT_REPRODUCED))
    return ExitCode.OK if all(exhibited.as_expected for exhibited in shown) else ExitCode.FAILED


def _print(shown: Exhibited) -> None:
    exhibit = shown.exhibit
    print(f"{exhibit.number}: {exhibit.title} ({exhibit.program})\n{exhibit.story}\nRebuilt: {exhibit.rebuilt}.")
    print(f"As it was: {shown.wrong.verdict}\nMended: {shown.mended.verdict}\n", flush=True)


def _verdicts(shown: Exhibited) -> tuple[str, str, str]:
    wrong, mended = (", ".join(exhibited.differences) or "no difference" for exhibited in (shown.wrong, shown.mended))
    acquitted = not shown.mended.different and not shown.mended.undecided
    return (
        f"convicted: {wrong}" if shown.wrong.different else wrong,
        f"acquitted: {mended}" if acquitted else mended,
        _bound(shown.mended),
    )


def _bound(mended: AuditReport) -> str:
    """How large a difference of the mended server would have been found."""
    missed = mended.sampled["missed"] if mended.sampled else {"variation": None}
    return "nothing" if missed["variation"] is None else f"TV {missed['variation']:.2g}, {missed['nats']:.2g} nats"


def _as_json(shown: Exhibited) -> dict[str, object]:
    return {**about(shown.exhibit), "wrong": shown.wrong.as_json(), "mended": shown.mended.as_json()}


def about(exhibit: Exhibit) -> dict[str, str]:
    """What is said of an exhibit."""
    return {name: getattr(exhibit, name) for name in ("number", "link", "program", "title", "story", "rebuilt")}
