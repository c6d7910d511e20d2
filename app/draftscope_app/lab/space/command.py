"""`draftscope space targets` says what a Space can be; `build DIR` builds its folder, `push OWNER/NAME` uploads it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from draftscope_app.cli import terminal
from draftscope_app.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from draftscope_app.lab.space.folder import Target

CHECKOUT = Path(__file__).resolve().parents[4]

Checkout = Annotated[Path, typer.Option(metavar="DIR", help="the folder that has space.yaml and the code")]
On = Annotated[str | None, typer.Option(metavar="TARGET", help="static, zerogpu or paid; default: static")]
Hardware = Annotated[str | None, typer.Option(metavar="NAME", help="with paid: the hub's name; default: cpu-basic")]

app = typer.Typer(add_completion=False, help="Build the dashboard as a Hugging Face Space, or upload it.")


@app.command()
def targets(checkout: Checkout = CHECKOUT) -> int:
    """Print what a Space can be: what each kind costs, and what it can do."""
    from draftscope_app.lab.space import folder as folders

    rows = [(name, target.costs, target.can) for name, target in folders.read(checkout).targets.items()]
    terminal.show(terminal.Table(("target", "costs", "can"), rows))
    return ExitCode.OK


@app.command()
def build(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a new or empty folder")],
    on: On = None,
    hardware: Hardware = None,
    checkout: Checkout = CHECKOUT,
) -> int:
    """Build the folder that space.yaml describes, for one of its targets."""
    from draftscope_app.lab.space import folder as folders

    target = folders.build(folder, checkout, on, hardware)
    if target.hardware is None and (absent := folders.not_recorded()):
        terminal.print_note(absent)
    print(f"'{folder}' is {_kind(target)}.")
    return ExitCode.OK


@app.command()
def push(
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="the Space on the hub")],
    on: On = None,
    hardware: Hardware = None,
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
        target = folders.build(Path(made), checkout, on, hardware)
        if yes:
            print(f"The Space is at {upload.push(Path(made), target, name, update)}.")
        else:
            print(f"Dry run: {_kind(target)} would go to '{name}'; it costs {target.costs}. --yes uploads it.")
    return ExitCode.OK


def _kind(target: Target) -> str:
    return f"a Space for {target.hardware}" if target.hardware else "a static Space"
