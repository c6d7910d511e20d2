"""`draftscope bench`: drafters and other programs, measured; as JSON, as Markdown and as a page of plots."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from draftscope.measure.bench import command
from draftscope_app.cli.commands import options

if TYPE_CHECKING:
    from draftscope.decode.lab import Lab
    from draftscope.measure.bench.report import Report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    command.add_arguments(parser)
    options.add_loading(parser)


def run(args: argparse.Namespace) -> int:
    """The page is made from the report alone; without plotly everything else is there."""

    def load(target: str | None, draft: str | None) -> Lab:
        revision = args.draft_revision if draft == args.draft else None
        return options.load(
            argparse.Namespace(**vars(args) | {"target": target, "draft": draft, "draft_revision": revision})
        )

    report = command.run(args, load)
    files = ["bench.json", "bench.md", *_page(args, report)]
    print(f"draftscope: wrote {', '.join(files)} to {args.out}.", file=sys.stderr)
    return 0


def _page(args: argparse.Namespace, report: Report) -> list[str]:
    """Writes `bench.html`; says so where plotly is not installed."""
    try:
        from draftscope_app.reports.bench_page import page
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("plotly"):
            raise
        print("draftscope: bench.html needs plotly; install it with: pip install 'draftscope[app]'.", file=sys.stderr)
        return []
    (args.out / "bench.html").write_text(page(json.loads(report.as_json())), encoding="utf-8")
    return ["bench.html"]
