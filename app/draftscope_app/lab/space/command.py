"""`draftscope space build DIR` builds the folder that is a Space; `draftscope space push OWNER/NAME` uploads it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from draftscope_app.cli.exit_codes import ExitCode

CHECKOUT = Path(__file__).resolve().parents[4]

Checkout = Annotated[Path, typer.Option(metavar="DIR", help="the folder that has space.yaml and the code")]

app = typer.Typer(add_completion=False, help="Build the dashboard as a Hugging Face Space, or upload it.")


@app.command()
def build(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a new or empty folder")], checkout: Checkout = CHECKOUT
) -> int:
    """Build the folder that space.yaml describes."""
    from draftscope_app.lab.space import folder as folders

    description = folders.build(folder, checkout)
    print(f"'{folder}' is a Space for {description.suggested_hardware}.")
    return ExitCode.OK


@app.command()
def push(
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="the Space on the hub")],
    yes: Annotated[bool, typer.Option("--yes", help="upload; without it this is a dry run")] = False,
    update: Annotated[bool, typer.Option("--update", help="upload to a Space that exists already")] = False,
    checkout: Checkout = CHECKOUT,
) -> int:
    """Upload the folder. The token is HF_TOKEN in the environment."""
    from draftscope_app.lab.space import folder as folders
    from draftscope_app.lab.space import upload

    upload.check_name(name)
    if yes:
        upload.read_token()  # before anything is copied
    with tempfile.TemporaryDirectory(prefix="draftscope-space-") as made:
        description = folders.build(Path(made), checkout)
        if yes:
            print(f"The Space is at {upload.push(Path(made), description, name, update)}.")
        else:
            print(f"Dry run: a Space for {description.suggested_hardware} would go to '{name}'; --yes uploads it.")
    return ExitCode.OK
