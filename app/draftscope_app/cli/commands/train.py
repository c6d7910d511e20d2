"""`draftscope train`: the embedded models, made from a corpus. Unfinished runs exit with 130 and can continue."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from draftscope.base.errors import DraftscopeError
from draftscope.models.loading.embedded import FAMILY
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import decimal, whole

NAMES = ", ".join(member.name for member in FAMILY)

What = Annotated[
    Literal["target", "draft", "tokenizer", "all", "family"],
    typer.Argument(
        metavar="WHAT",
        help="'all' is target, then draft; 'family' is every member, and continues from the weights in --out",
    ),
]
Corpus = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        envvar="DRAFTSCOPE_CORPUS",
        help="folder of <domain>.train.txt and <domain>.val.txt, or the same as .xz",
    ),
]
Minutes = Annotated[
    float | None,
    typer.Option(
        parser=decimal,
        metavar="X",
        help="time in training steps, over all sittings of a run; default: 100, of which 'all' gives the draft an "
        "eighth; 'family' has a time for each member",
    ),
]
WarmStart = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="start a new run from the weights of this model folder; with another --seed it reads the text in "
        "another order",
    ),
]
Threads = Annotated[int | None, typer.Option(parser=whole, metavar="N", help="threads; default: all cores")]
Members = Annotated[str | None, typer.Option(metavar="NAME,...", help=f"with 'family': some of {NAMES}; default: all")]
Preset = Annotated[
    Literal["cpu", "gpu"] | None,
    typer.Option(metavar="NAME", help="cpu for two cores (default), or gpu"),
]
Sitting = Annotated[
    float | None,
    typer.Option(
        parser=decimal,
        metavar="MINUTES",
        help="stop after this time with exit code 130; the same command continues from there",
    ),
]
Shards = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="also write finished models as a tar in pieces of 16 MB"),
]
Seed = Annotated[int, typer.Option(parser=whole, metavar="N", help="seed of text order and first weights")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="folder for the models")]
Work = Annotated[Path, typer.Option(metavar="DIR", help="folder for unfinished runs and caches")]

app = typer.Typer(add_completion=False)


@app.command()
def train(
    what: What,
    corpus: Corpus = None,
    out: Out = Path("assets/models"),
    work: Work = Path(".train"),
    minutes: Minutes = None,
    seed: Seed = 0,
    warm_start: WarmStart = None,
    threads: Threads = None,
    members: Members = None,
    preset: Preset = None,
    sitting: Sitting = None,
    shards: Shards = None,
) -> int:
    """Train the embedded models.

    Ctrl-C saves the run and exits with 130; the same command continues from there.
    """
    if corpus is None:
        raise DraftscopeError("Name the training text: --corpus DIR, or DRAFTSCOPE_CORPUS in the environment.")
    from draftscope.train import family

    names = None if members is None else tuple(name.strip() for name in members.split(","))
    finished = family.train(
        family.Training(
            what, corpus, out, work, minutes, seed, warm_start, threads or os.cpu_count() or 1,
            names, preset, sitting, shards,
        )
    )  # fmt: skip
    return ExitCode.OK if finished else ExitCode.INTERRUPTED
