"""`draftscope export TRACE`: a recorded run as a table. Loads no model and never imports torch."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from draftscope import tracefile
from draftscope.errors import DraftscopeError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="TRACE", help="a trace, as 'draftscope decode --trace FILE' writes it")
    parser.add_argument(
        "--what", default="tokens", metavar="TABLE", help="tokens, rounds or contests: a row for each (default: tokens)"
    )
    parser.add_argument("--to", metavar="FILE", help="ends in .csv, .parquet or .jsonl (default: CSV on stdout)")


def run(args: argparse.Namespace) -> int:
    """What is whole of a truncated file is written, and a warning says so."""
    from draftscope import frames

    if args.to is not None:
        frames.refuse_format(args.to)
        _refuse_itself(Path(args.file), Path(args.to))
    recording = tracefile.read(args.file)
    table = frames.frame(recording.events, args.what)
    if args.to is None:
        table.to_csv(sys.stdout, index=False, lineterminator="\n")
    else:
        frames.write(table, args.to)
    if recording.warning:
        print(f"draftscope: {recording.warning}", file=sys.stderr)
    return 0


def _refuse_itself(trace: Path, table: Path) -> None:
    if trace.exists() and table.exists() and trace.samefile(table):
        raise DraftscopeError(f"--to {table} is the trace itself, which would be lost; choose another file.")
