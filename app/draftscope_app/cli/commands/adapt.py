"""`draftscope adapt`: fine-tune a drafter on a text of your own, and say what it gained."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from draftscope.base.errors import DraftscopeError
from draftscope.models.loading.embedded import FAMILY
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import decimal, whole

if TYPE_CHECKING:
    from draftscope.train.adapt import Adapted

NAMES = ", ".join(member.name for member in FAMILY if member.of)

app = typer.Typer(add_completion=False)


@app.command()
def adapt(
    drafter: Annotated[str, typer.Option(metavar="NAME", help=f"one of {NAMES}")],
    text: Annotated[
        Path, typer.Option(metavar="FILE", help="plain text, or .xz; the last tenth is held out to measure on")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="a new folder for the drafter")],
    minutes: Annotated[float, typer.Option(parser=decimal, metavar="X", help="time in training steps")] = 5.0,
    work: Annotated[Path, typer.Option(metavar="DIR", help="folder for an unfinished run")] = Path(".train"),
    threads: Annotated[int | None, typer.Option(parser=whole, metavar="N", help="threads; default: all cores")] = None,
) -> int:
    """Fine-tune a drafter on your own text; prints acceptance and speed before and after.

    Ctrl-C saves the run and exits with 130; the same command continues from there.
    """
    if minutes <= 0:
        raise DraftscopeError(f"--minutes {minutes:g} leaves no time to train: give a positive number.")
    import torch

    from draftscope.train import adapt as adapting

    torch.set_num_threads(threads or os.cpu_count() or 1)
    return _show(adapting.adapt(drafter, text, out, work, minutes))


def _show(found: Adapted) -> ExitCode:
    print(f"{found.progress.tokens:,} tokens read in {found.progress.spent / 60:.1f} minutes.")
    print(f"acceptance at T=1 on the part held out ({found.before.tokens:,} tokens), sum of min(p, q) by depth:")
    for name, one in (("before", found.before), ("after", found.after)):
        print(f"  {name:6} {'  '.join(f'{alpha:.3f}' for alpha in one.alpha)}")
    if found.speedups is None:
        print("Interrupted; the same command continues from here.")
        return ExitCode.INTERRUPTED
    print("tokens/s of a chain of 4 there, T=1, divided by plain's in the same repeat (median, 95% interval):")
    for name, ratio in zip(("before", "after"), found.speedups, strict=True):
        print(f"  {name:6} {ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]")
    gained = sum(found.after.alpha) - sum(found.before.alpha)
    print(f"{'Gained' if gained > 0 else 'Nothing gained'}; written to {found.folder}.")
    return ExitCode.OK
