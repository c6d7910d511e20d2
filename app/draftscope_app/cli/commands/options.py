"""Options that several commands share: which models to load, and the settings of a run."""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from tqdm import tqdm

from draftscope.drafters.settings import Settings
from draftscope_app.engine.messages import Load

if TYPE_CHECKING:
    from draftscope.decode.lab import Lab


def add_loading(parser: argparse.ArgumentParser) -> None:
    """Which models are loaded, where they come from and where they go; one option for each field of `Load`."""
    group = parser.add_argument_group("models")
    group.add_argument(
        "--target", metavar="MODEL", help="hub id, folder or embedded name: experts (default: the embedded pair)"
    )
    group.add_argument(
        "--draft", metavar="MODEL", help="the draft model, as mamba2; for a cascade several, the largest first: A,B"
    )
    group.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16 (default: auto)")
    group.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    group.add_argument("--threads", type=int, metavar="N", help="threads on the CPU (default: what is fastest)")
    group.add_argument(
        "--head", action="append", default=[], metavar="KIND:MODEL", dest="heads",
        help="a head that reads the target's features, such as eagle3:FOLDER; '--drafter eagle3:FOLDER' does both",
    )  # fmt: skip
    group.add_argument("--ballast", metavar="PAIR", help="carry the weight of a real pair, such as 8b+1b: same tokens")
    group.add_argument(
        "--no-graphs",
        action="store_false",
        dest="graphs",
        help="launch every kernel: no CUDA graphs, to see their worth",
    )
    group = parser.add_argument_group("loading")
    group.add_argument("--revision", metavar="NAME", help="branch, tag or commit of the target on the hub")
    group.add_argument("--draft-revision", metavar="NAME", help="the same of the draft model")
    group.add_argument("--device-map", metavar="MAP", help="spread the target over all devices: auto, balanced, ...")
    group.add_argument("--trust-remote-code", action="store_true", help="run code that a model brings along")
    group.add_argument("--allow-pickle", action="store_true", help="read weights from pickles, which can run code")


def models(args: argparse.Namespace) -> Load:
    """The models that the arguments name."""
    take_head(args)
    args.heads = tuple(args.heads)
    return Load(**{field.name: getattr(args, field.name) for field in fields(Load) if hasattr(args, field.name)})


def load(args: argparse.Namespace) -> Lab:
    """The models that the arguments name, and a line on stderr for what they cannot do."""
    import draftscope

    with waiting("Loading the models"):
        lab = draftscope.load(**asdict(models(args)), progress=sys.stderr.isatty())
    for sentence in [*lab.limits, *lab.compiled]:
        print(f"draftscope: {sentence}", file=sys.stderr)
    return lab


def take_head(args: argparse.Namespace) -> None:
    """'--drafter eagle3-tree:MODEL' names a drafter and the head that it needs."""
    name, _, source = (getattr(args, "drafter", None) or "").partition(":")
    if source:
        args.drafter = name
        args.heads = [*args.heads, f"{name.removesuffix('-tree')}:{source}"]


def add_settings(parser: argparse.ArgumentParser) -> None:
    """One option for each field of `Settings`, whose own validation says what is out of range."""
    group = parser.add_argument_group("settings")
    for name, field in Settings.model_fields.items():
        option = f"--{name.replace('_', '-')}"
        about = field.description or ABOUT[name]
        if name == "stop":
            group.add_argument(option, action="append", metavar="TEXT", help=f"{about}; may be repeated")
            continue
        if field.annotation is bool:
            group.add_argument(option, action="store_true", default=None, help=about)
            continue
        default = ",".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
        shown = f"{about} (default: {default})" if default not in ("", None) else about
        group.add_argument(option, metavar=METAVARS.get(name, "N"), help=shown)


ABOUT = {
    "drafter": "who drafts; 'draftscope drafters' lists them",
    "top_p": "smallest set of tokens with this mass; 1 keeps every token",
    "min_p": "least probability, relative to the likeliest token's",
    "seed": "of every random draw",
    "max_new_tokens": "length limit",
}
METAVARS = {
    "drafter": "NAME", "shape": "N,N,...", "rule": "RULE", "inner": "NAME", "typed": "TEXT", "system": "TEXT",
    "policy": "NAME", "arms": "NAME:FORM,...",
}  # fmt: skip


def settings(args: argparse.Namespace) -> Settings:
    """The settings that the arguments name; what is not given keeps its default."""
    take_head(args)
    given = {name: value for name in Settings.model_fields if (value := getattr(args, name, None)) is not None}
    for listed in ("shape", "arms"):
        if listed in given:
            given[listed] = tuple(given[listed].split(","))
    return Settings.of(**given)


def waiting(what: str) -> AbstractContextManager[object]:
    """A line on a terminal's stderr that stands while something without a count goes on."""
    return tqdm(desc=what, bar_format="{desc} ...", leave=False, disable=None, file=sys.stderr)
