"""`draftscope train-drafter`: a drafter for any target, trained on the target's own answers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from draftscope.drafters.options import trained_kinds
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import decimal, whole

HOW_LONG = "How long"

Target = Annotated[str, typer.Option(metavar="MODEL", help="the model to draft for: a folder or hub id")]
Kind = Annotated[
    str, typer.Option(metavar="KIND", help=f"{', '.join(trained_kinds())}; 'draft' is a small Llama, others are heads")
]
Out = Annotated[Path | None, typer.Option(metavar="DIR", help="folder for the drafter; default: KIND-for-MODEL")]
Prompts = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="prompts for the target to answer, one JSON object a line; default: our own"),
]
Text = Annotated[Path | None, typer.Option(metavar="DIR", help="also make prompts from the documents in this folder")]
Work = Annotated[Path, typer.Option(metavar="DIR", help="folder for answers and unfinished runs")]
Preset = Annotated[Literal["cpu", "gpu"], typer.Option(metavar="NAME", help="cpu for two cores, or gpu")]
Seed = Annotated[int, typer.Option(parser=whole, metavar="N", help="seed of prompts, order and weights")]
Threads = Annotated[int | None, typer.Option(parser=whole, metavar="N", help="threads; default: all cores")]
Tokens = Annotated[
    int | None,
    typer.Option(
        parser=whole,
        metavar="N",
        help="tokens that the target writes; default: 1,000,000, 20,000,000 on a GPU",
        rich_help_panel=HOW_LONG,
    ),
]
Minutes = Annotated[
    float | None,
    typer.Option(
        parser=decimal,
        metavar="X",
        help="time in training steps, over all sittings; default: 120, 30 on a GPU",
        rich_help_panel=HOW_LONG,
    ),
]
Sitting = Annotated[
    float | None,
    typer.Option(
        parser=decimal,
        metavar="MINUTES",
        help="stop after this time with exit code 130; the same command continues, also elsewhere if --work is "
        "copied; default: none, 9 on a GPU",
        rich_help_panel=HOW_LONG,
    ),
]

app = typer.Typer(add_completion=False)


@app.command()
def train_drafter(
    target: Target,
    kind: Kind = "eagle3",
    out: Out = None,
    prompts: Prompts = None,
    text: Text = None,
    work: Work = Path(".train"),
    preset: Preset = "cpu",
    seed: Seed = 0,
    threads: Threads = None,
    tokens: Tokens = None,
    minutes: Minutes = None,
    sitting: Sitting = None,
) -> int:
    """Train a drafter for any model, on the model's own answers.

    The model answers prompts, the drafter learns from the answers, and its acceptance, cost and speed are measured on
    prompts that were held out. Ctrl-C saves and exits with 130; the same command continues from there, and with larger
    --tokens or --minutes also after the end.
    """
    from draftscope.train.drafter import DrafterTraining, train_drafter

    folder = out or Path(f"{kind}-for-{Path(target).name}")
    training = DrafterTraining(
        target, kind, folder, work, prompts, text, preset, tokens, minutes, sitting, seed,
        threads or os.cpu_count() or 1,
    )  # fmt: skip
    return ExitCode.OK if train_drafter(training) else ExitCode.INTERRUPTED
