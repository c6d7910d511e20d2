"""`draftscope train-drafter`: a drafter for any target, trained on the target's own answers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from draftscope.base.usable_cores import usable_cores
from draftscope.drafters.registry import trained_kinds
from draftscope_app.cli import command_options
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, option, options_of, read_options, takes

HOW_LONG = "How long"


class Options(BaseModel):
    """What `train-drafter` takes."""

    target: str = option("the model to draft for: a folder or hub id", metavar="MODEL")
    kind: str = option(
        f"{', '.join(trained_kinds())}; 'draft' is a small Llama, others are heads", "eagle3", metavar="KIND"
    )
    out: Path | None = option("folder for the drafter; default: KIND-for-MODEL", None, metavar="DIR")
    prompts: Path | None = option(
        "prompts for the target to answer, one JSON object a line; default: our own", None, metavar="FILE"
    )
    text: Path | None = option("also make prompts from the documents in this folder", None, metavar="DIR")
    warm_start: Path | None = option("start a new run from the weights of this drafter's folder", None, metavar="DIR")
    work: Path = option("folder for answers and unfinished runs", Path(".train"), metavar="DIR")
    preset: Literal["cpu", "gpu"] = option("for two cores, or for a GPU", "cpu")
    seed: int = option("seed of prompts, order and weights", 0, ge=0)
    threads: int | None = command_options.THREADS
    tokens: int | None = option(
        "tokens that the target writes; default: 1,000,000, 20,000,000 on a GPU", None, panel=HOW_LONG
    )
    minutes: float | None = option(
        "time in training steps, over all sittings; default: 120, 30 on a GPU", None, panel=HOW_LONG
    )
    sitting: float | None = option(
        "stop after this time with exit code 130; the same command continues, also elsewhere if --work is copied; "
        "default: none, 9 on a GPU", None, panel=HOW_LONG, metavar="MINUTES",
    )  # fmt: skip


@takes(given=options_of(Options.model_fields))
def train_drafter(given: Given) -> int:
    """Train a drafter for any model, on the model's own answers.

    The model answers prompts, the drafter learns from the answers, and its acceptance, cost and speed are measured on
    prompts that were held out. Ctrl-C saves and exits with 130; the same command continues from there, and with larger
    --tokens or --minutes also after the end.

    Example: draftscope train-drafter --target smollm2 --kind eagle3 --out HEAD
    """
    from draftscope.train.drafter_training import DrafterTraining, train_drafter

    chosen = read_options(Options, given)
    values = dict(chosen) | {
        "out": chosen.out or Path(f"{chosen.kind}-for-{Path(chosen.target).name}"),
        "threads": chosen.threads or usable_cores(),
    }
    return ExitCode.OK if train_drafter(DrafterTraining(**values)) else ExitCode.INTERRUPTED
