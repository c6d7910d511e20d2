"""`draftscope space build DIR` renders the folder that is a Space; `draftscope space push OWNER/NAME` uploads it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.engine.plural import count

if TYPE_CHECKING:
    from draftscope_app.space.folder import Built

HERE = Path(__file__).resolve().parents[4]

Checkout = Annotated[Path, typer.Option(metavar="DIR", help="the folder that has space.yaml and the code")]
Hardware = Annotated[
    str | None, typer.Option(metavar="NAME", help="hardware such as zero-a10g, instead of the one in space.yaml")
]

app = typer.Typer(add_completion=False, help="Build the dashboard as a Hugging Face Space, or upload it.")


@app.command()
def build(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a new or empty folder")],
    checkout: Checkout = HERE,
    hardware: Hardware = None,
) -> int:
    """Render space.yaml into a folder."""
    from draftscope_app.space import folder as folders

    print(f"{_described(folders.build(folder, checkout, hardware))}, in '{folder}'.")
    return ExitCode.OK


@app.command()
def push(
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="the Space on the hub")],
    yes: Annotated[bool, typer.Option("--yes", help="upload; without it this is a dry run")] = False,
    update: Annotated[bool, typer.Option("--update", help="upload to a Space that exists already")] = False,
    checkout: Checkout = HERE,
    hardware: Hardware = None,
) -> int:
    """Upload the folder. The token is HF_TOKEN in the environment."""
    from draftscope_app.space import folder as folders
    from draftscope_app.space import hub

    hub.refuse_name(name)
    if yes:
        hub.token()  # before anything is copied
    with tempfile.TemporaryDirectory(prefix="draftscope-space-") as made:
        built = folders.build(Path(made), checkout, hardware)
        hub.refuse_hardware(built.description.hardware)
        if not yes:
            print(f"Dry run: {_described(built)} would go to '{name}'; --yes uploads it.")
            return ExitCode.OK
        print(f"{_described(built)} is at {hub.push(built, name, update)}.")
    return ExitCode.OK


def _described(built: Built) -> str:
    return (
        f"A Space for {built.description.hardware}, torch {built.description.torch[built.description.kind]}, "
        f"{count(built.files, 'file')}, {built.size / 1e6:.1f} MB"
    )
