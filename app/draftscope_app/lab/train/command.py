"""`draftscope train`: the embedded models, made from a corpus. Unfinished runs exit with 130 and can continue."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import BaseModel

from draftscope.base.errors import DraftscopeError
from draftscope.base.usable_cores import usable_cores
from draftscope.models.loading.embedded import FAMILY
from draftscope_app.cli import command_options
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, option, options_of, read_options, takes
from draftscope_app.lab.train.variables import Variables

NAMES = ", ".join(member.name for member in FAMILY)

What = Annotated[
    Literal["target", "draft", "tokenizer", "all", "family"],
    typer.Argument(
        metavar="WHAT",
        show_choices=False,
        help="target, draft or tokenizer; 'all' is target, then draft; 'family' is every member, from the weights "
        "in --out",
    ),
]


class Options(BaseModel):
    """What `train` takes beside the models to train."""

    corpus: Path | None = option(
        "folder of <domain>.train.txt and <domain>.val.txt, or the same as .xz; default: $DRAFTSCOPE_CORPUS", None,
        metavar="DIR",
    )  # fmt: skip
    out: Path = option("folder for the models", Path("assets/models"), metavar="DIR")
    work: Path = option("folder for unfinished runs and caches", Path(".train"), metavar="DIR")
    minutes: float | None = option(
        "time in training steps, over all sittings of a run; default: 100, of which 'all' gives the draft an eighth; "
        "'family' has a time for each member",
        None,
    )
    seed: int = option("seed of text order and first weights", 0, ge=0)
    warm_start: Path | None = option(
        "start a new run from the weights of this model folder; with another --seed it reads the text in another order",
        None, metavar="DIR",
    )  # fmt: skip
    threads: int | None = command_options.THREADS
    members: tuple[str, ...] | None = option(f"with 'family': some of {NAMES}; default: all", None, metavar="NAME,...")
    preset: Literal["cpu", "gpu"] | None = option("for two cores (default), or for a GPU", None)
    sitting: float | None = option(
        "stop after this time with exit code 130; the same command continues from there", None, metavar="MINUTES"
    )
    shards: Path | None = option("also write finished models as a tar in pieces of 16 MB", None, metavar="DIR")


@takes(given=options_of(Options.model_fields, by_commas=frozenset({"members"})))
def train(what: What, given: Given) -> int:
    """Train the embedded models.

    Ctrl-C saves the run and exits with 130; the same command continues from there.
    """
    chosen = read_options(Options, given)
    corpus = chosen.corpus or Path(Variables.read().corpus)
    if corpus == Path():
        raise DraftscopeError("Name the training text: --corpus DIR, or DRAFTSCOPE_CORPUS in the environment.")
    from draftscope.train import family

    values = dict(chosen) | {"corpus": corpus, "threads": chosen.threads or usable_cores()}
    return ExitCode.OK if family.train(family.Training(what, **values)) else ExitCode.INTERRUPTED
