"""`draftscope exporter SOURCE`: acceptance as Prometheus reads it; `--board FILE` writes a board for Grafana."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import typer

from draftscope.base.errors import DraftscopeError, write_text
from draftscope_app.cli import command_options
from draftscope_app.cli.exit_codes import ExitCode

SOURCE = "a log that an engine writes, or the address of vLLM, llama.cpp or SGLang"
PLAIN = "what plain decoding takes a token, if you measured it; the board then shows the gain"

Given = Annotated[str | None, typer.Argument(metavar="SOURCE", help=SOURCE)]
PlainMs = Annotated[float | None, command_options.make_option(PLAIN, "MS")]
Board = Annotated[
    Path | None, command_options.make_option("write a board for Grafana, and end", "FILE", command_options.OUTPUT)
]
Host = Annotated[str, command_options.make_option("address to listen at; 0.0.0.0: everywhere", "ADDRESS")]
Port = Annotated[int, command_options.make_option("port to listen at", "N")]


def exporter(
    source: Given = None, plain_ms: PlainMs = None, board: Board = None, host: Host = "127.0.0.1", port: Port = 9464
) -> int:
    """Say acceptance to Prometheus: of the log of any engine, or of a server's own counters, under one set of names.

    Point Prometheus at http://127.0.0.1:9464/metrics. Import the board that --board writes into Grafana.
    """
    if board is not None:
        _write_board(board)
        return ExitCode.OK
    if source is None:
        raise DraftscopeError(f"No SOURCE was given; name {SOURCE}.")
    if plain_ms is not None and not 0 < plain_ms < math.inf:
        raise DraftscopeError(f"--plain-ms {plain_ms} is no time; give the milliseconds of a token, such as 12.5.")
    _serve(source, host, port, plain_ms)
    return ExitCode.OK


def _write_board(file: Path) -> None:
    from draftscope_app.doors.servers.exporter.board import board

    write_text(file, json.dumps(board(), indent=2) + "\n")
    print(f"Wrote {file}: in Grafana choose Dashboards, New, Import.")


def _serve(source: str, host: str, port: int, plain_ms: float | None) -> None:
    from draftscope_app.doors.servers.exporter import count_sources, web
    from draftscope_app.serve.server import refuse_taken

    is_address = source.startswith(("http://", "https://"))
    if not is_address and not Path(source).is_file():
        raise DraftscopeError(f"There is no log '{source}'; name {SOURCE}, such as http://127.0.0.1:8000.")
    refuse_taken(host, port)
    print(f"{source} is at http://{host}:{port}/metrics (Ctrl+C ends it)", flush=True)
    chosen = count_sources.ServerSource(source) if is_address else count_sources.LogSource(Path(source))
    web.server(chosen, host, port, plain_ms).run()
