"""`draftscope export TRACE`: a recorded run as a table, or as a page that plays by itself. Never imports torch."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from draftscope.base.errors import DraftscopeError
from draftscope.trace import files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="TRACE", help="a trace, as 'draftscope decode --trace FILE' writes it")
    parser.add_argument(
        "--what",
        default="tokens",
        metavar="WHAT",
        help="tokens, rounds or contests: a row for each; page: one HTML file that plays offline (default: tokens)",
    )
    parser.add_argument(
        "--to", metavar="FILE", help="ends in .csv, .parquet or .jsonl, a page in .html (default: stdout)"
    )


def run(args: argparse.Namespace) -> int:
    """What is whole of a truncated file is written, and a warning says so."""
    recording = _page(args) if args.what == "page" else _table(args)
    if recording.warning:
        print(f"draftscope: {recording.warning}", file=sys.stderr)
    return 0


def _table(args: argparse.Namespace) -> files.Recording:
    from draftscope.trace import tables

    if args.to is not None:
        tables.refuse_format(args.to)
        _refuse_itself(Path(args.file), Path(args.to))
    recording = files.read(args.file)
    table = tables.frame(recording.events, args.what)
    if args.to is None:
        table.to_csv(sys.stdout, index=False, lineterminator="\n")
    else:
        tables.write(table, args.to)
    return recording


def _page(args: argparse.Namespace) -> files.Recording:
    from draftscope.trace import html as player

    if args.to is not None and Path(args.to).suffix not in (".html", ".htm"):
        raise DraftscopeError(f"'{args.to}': name a file that ends in .html.")
    if args.to is not None:
        _refuse_itself(Path(args.file), Path(args.to))
    recording = files.read(args.file)
    html = player.page(recording.events)
    if len(player.first_run(recording.events)) < len(recording.events):
        print(f"draftscope: '{args.file}' holds several runs; the page plays the first.", file=sys.stderr)
    if args.to is None:
        sys.stdout.write(html)
        return recording
    try:
        Path(args.to).write_text(html, encoding="utf-8")
    except OSError as error:
        raise DraftscopeError(f"'{args.to}' cannot be written ({error.strerror}); choose another file.") from None
    return recording


def _refuse_itself(trace: Path, to: Path) -> None:
    if trace.exists() and to.exists() and trace.samefile(to):
        raise DraftscopeError(f"--to {to} is the trace itself, which would be lost; choose another file.")
