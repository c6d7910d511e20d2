"""What `bench` and others that measure share: options of a plan, the folder of the results, how they are printed."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from draftscope.base.errors import DraftscopeError, one_sentence
from draftscope.base.prompts import Prompt, select, shipped
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.fields import Given, option, options_of, typed
from draftscope_app.engine.opening_models import chats

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine

MEASURED = "What is measured"

_OPTIONS: Mapping[str, tuple[str, str, str]] = {  # option -> field of the plan, metavar, help
    "drafters": ("drafters", "NAME,...", "'draftscope drafters' lists them; default: all that can run"),
    "kinds": ("kinds", "KIND,...", "kinds of text; default: all"),
    "temperature": ("temperatures", "T,...", "temperatures"),
    "gamma": ("gammas", "N,...", "drafted tokens in a chain"),
    "lengths": ("lengths", "NAME,...", "draft lengths: fixed, or chosen while drafting (cost, confidence, ...)"),
    "rules": ("rules", "NAME,...", "rules that verify chains"),
    "batch": ("batches", "N,...", "sequences decoded together"),
    "context": ("contexts", "N,...", "tokens of the prompt; default: prompts as they are"),
    "tokens": ("tokens", "N", "tokens to write"),
    "repeats": ("repeats", "N", "repeats after the warm-up"),
    "peers": ("peers", "", "measure other programs too"),
}

OWN = "prompts of your own, or a log of requests, one JSON object a line"
Prompts = Annotated[Path | None, command_options.make_option(OWN, "FILE.jsonl", MEASURED)]
Out = Annotated[Path, command_options.make_option("folder for the files", "DIR", command_options.OUTPUT)]


def plan_options(default: BenchPlan, names: Sequence[str] = tuple(_OPTIONS)) -> list[inspect.Parameter]:
    """The named options, for `takes`; the help shows the defaults of this plan."""
    kinds = get_type_hints(BenchPlan)
    fields = {
        name: typed(kinds[field], option(about, getattr(default, field), MEASURED, metavar))
        for name, (field, metavar, about) in _OPTIONS.items()
        if name in names
    }
    return options_of(fields, by_commas=frozenset(_OPTIONS))


def make_plan(given: Given, base: BenchPlan) -> BenchPlan:
    """`base` with what was given, each value of a list once; or a `DraftscopeError`."""
    values: dict[str, Any] = {_OPTIONS[name][0]: value for name, value in given.items()}
    for name, value in values.items():
        values[name] = tuple(dict.fromkeys(value)) if isinstance(value, list) else value
    return replace(base, **values)


def for_target(
    engine: DecodingEngine, plan: BenchPlan, prompts: Path | None, selected: dict[str, list[Prompt]]
) -> dict[str, list[Prompt]]:
    """`selected`, or the shipped questions of the same kinds where the target answers in a chat: a text to continue is
    no question. A file of prompts stays as it is."""
    if prompts is not None or not chats(engine):
        return selected
    return select(shipped(chat=True), plan.kinds, plan.prompts_per_kind)


def prepare_folder(folder: Path) -> None:
    """Makes the folder of --out before anything is measured, or raises `DraftscopeError`."""
    with one_sentence(f"--out {folder}: the folder cannot be made", "name another"):
        folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise DraftscopeError(f"--out {folder}: this folder cannot be written to; name another.")


def print_report(notes: Iterable[str], markdown: str, whole: str, json: bool) -> None:
    """The report's tables or, with `json`, the `whole` of it on stdout; its notes on stderr."""
    for note in notes:
        terminal.print_note(" ".join(note.split()))
    if json:
        print(whole)
    else:
        terminal.markdown(markdown)
