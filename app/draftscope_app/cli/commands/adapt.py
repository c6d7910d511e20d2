"""`draftscope adapt`: fine-tune a drafter on your own text, and say what it gained."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from draftscope.base.errors import DraftscopeError
from draftscope.models.loading.embedded import FAMILY
from draftscope_app.cli import options
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, option, options_of, read_options, takes

if TYPE_CHECKING:
    from draftscope.train.adapt import Adaptation

NAMES = ", ".join(member.name for member in FAMILY if member.of)


class Options(BaseModel):
    """What `adapt` takes."""

    drafter: str = option(f"one of {NAMES}", metavar="NAME")
    text: Path = option("plain text, or .xz; the last tenth is held out to measure on", metavar="FILE")
    out: Path = option("a new folder for the drafter", metavar="DIR")
    minutes: float = option("time in training steps", 5.0)
    work: Path = option("folder for an unfinished run", Path(".train"), metavar="DIR")
    threads: int | None = options.THREADS


@takes(given=options_of(Options.model_fields))
def adapt(given: Given) -> int:
    """Fine-tune a drafter on your own text; prints acceptance and speed before and after.

    Ctrl-C saves the run and exits with 130; the same command continues from there.

    Example: draftscope adapt --drafter draft --text mine.txt --out adapted
    """
    chosen = read_options(Options, given)
    if chosen.minutes <= 0:
        raise DraftscopeError(f"--minutes {chosen.minutes:g} leaves no time to train: give a positive number.")
    import torch

    from draftscope.train import adapt as adapting

    torch.set_num_threads(chosen.threads or os.cpu_count() or 1)
    return _print_gain(adapting.adapt(chosen.drafter, chosen.text, chosen.out, chosen.work, chosen.minutes))


def _print_gain(adaptation: Adaptation) -> ExitCode:
    print(f"{adaptation.progress.tokens:,} tokens read in {adaptation.progress.spent / 60:.1f} minutes.")
    print(f"acceptance at T=1 on the part held out ({adaptation.before.tokens:,} tokens), sum of min(p, q) by depth:")
    for name, agreement in (("before", adaptation.before), ("after", adaptation.after)):
        print(f"  {name:6} {'  '.join(f'{alpha:.3f}' for alpha in agreement.alpha)}")
    if adaptation.speedups is None:
        print("Interrupted; the same command continues from here.")
        return ExitCode.INTERRUPTED
    print("tokens/s of a chain of 4 there, T=1, divided by plain's in the same repeat (median, 95% interval):")
    for name, ratio in zip(("before", "after"), adaptation.speedups, strict=True):
        print(f"  {name:6} {ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]")
    gained = sum(adaptation.after.alpha) - sum(adaptation.before.alpha)
    print(f"{'Gained' if gained > 0 else 'Nothing gained'}; written to {adaptation.folder}.")
    return ExitCode.OK
