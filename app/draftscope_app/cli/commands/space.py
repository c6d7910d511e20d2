"""`draftscope space build DIR` renders the folder that is a Space; `draftscope space push OWNER/NAME` uploads it."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from draftscope_app.engine.plural import count

if TYPE_CHECKING:
    from draftscope_app.space.folder import Built

HERE = Path(__file__).resolve().parents[4]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="build | push", required=True)
    build = actions.add_parser("build", help="render space.yaml into a folder", allow_abbrev=False)
    build.add_argument("folder", metavar="DIR", type=Path, help="a new or empty folder")
    push = actions.add_parser(
        "push", help="upload the folder; the token is HF_TOKEN in the environment", allow_abbrev=False
    )
    push.add_argument("name", metavar="OWNER/NAME", help="the Space on the hub")
    push.add_argument("--yes", action="store_true", help="really upload; without it this is a dry run")
    push.add_argument("--update", action="store_true", help="upload into a Space that is there already")
    for action in (build, push):
        action.add_argument(
            "--checkout", type=Path, default=HERE, metavar="DIR", help="where space.yaml and the code are"
        )
        action.add_argument("--hardware", metavar="NAME", help="instead of what space.yaml says, such as zero-a10g")


def run(args: argparse.Namespace) -> int:
    from draftscope_app.space.folder import build

    if args.action == "build":
        print(f"{_told(build(args.folder, args.checkout, args.hardware))}, in '{args.folder}'.")
        return 0
    return _push(args)


def _push(args: argparse.Namespace) -> int:
    from draftscope_app.space import hub
    from draftscope_app.space.folder import build

    hub.refuse_name(args.name)
    if args.yes:
        hub.token()  # before anything is copied
    with tempfile.TemporaryDirectory(prefix="draftscope-space-") as folder:
        built = build(Path(folder), args.checkout, args.hardware)
        if not args.yes:
            print(f"Dry run: {_told(built)} would go to '{args.name}'; --yes uploads it.")
            return 0
        print(f"{_told(built)} is at {hub.push(built, args.name, args.update)}.")
    return 0


def _told(built: Built) -> str:
    return (
        f"A Space for {built.description.hardware}, torch {built.description.torch[built.description.kind]}, "
        f"{count(built.files, 'file')}, {built.size / 1e6:.1f} MB"
    )
