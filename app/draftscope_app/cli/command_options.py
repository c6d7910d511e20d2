"""Options that several commands share: which models to load, and the settings of a run."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from draftscope.base.admit import admit
from draftscope.base.errors import DraftscopeError
from draftscope.base.load_settings import LoadSettings
from draftscope.base.stages import Stage, tell, watched_by
from draftscope.drafters.registry import known_options
from draftscope.drafters.settings import Settings, known_settings
from draftscope.models import beforehand
from draftscope.models.loading.known import same_name, usual_drafter
from draftscope_app.cli import terminal
from draftscope_app.cli.fields import Given, changed, option, options_of, typed

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine

MODELS, LOADING, PROMPT, SAMPLING, DRAFTER, OUTPUT = (
    "Models", "Loading", "Prompt", "Sampling", "Drafter options", "Output",
)  # fmt: skip


def make_option(about: str, metavar: str | None = None, panel: str | None = None, *flags: str, **more: Any) -> Any:
    """An option of a command's signature, with its help."""
    return typer.Option(*flags, help=about, metavar=metavar, rich_help_panel=panel, **more)


Json = Annotated[bool, make_option("print one JSON object", None, OUTPUT, "--json")]
Trace = Annotated[Path, typer.Argument(metavar="TRACE", help="a trace, as 'draftscope decode --trace FILE' writes it")]
PromptText = Annotated[str, typer.Argument(metavar="PROMPT", help="the text to continue; '-' reads standard input")]


def prompt_text(given: str) -> str:
    """The prompt. Raises `DraftscopeError` for none, and for what is no text."""
    try:
        text = sys.stdin.read() if given == "-" else given
    except UnicodeError:
        raise DraftscopeError("The prompt is not valid UTF-8; convert it first.") from None
    admit({"prompt": text})
    return text


# Loading: one option for each field of `LoadSettings` that is listed here.

_LOADING: Mapping[str, tuple[str, str]] = {  # field -> metavar, help
    "target": ("MODEL", "hub id, folder, GGUF file, or a name: smollm2, embedded, experts, ...; default: embedded"),
    "draft": ("MODEL", "draft model, such as mamba2; several for a cascade, the largest first: A,B"),
    "heads": ("KIND:MODEL", "head that reads the target's features, such as eagle3:FOLDER"),
    "dtype": ("TYPE", "auto, float32, bfloat16, float16 or stored"),
    "device": ("NAME", "auto, cpu or cuda"),
    "threads": ("N", "threads on the CPU; default: the fastest number, measured"),
    "emulate": ("PAIR", "give the models the size of a real pair, such as 8b+1b; the tokens stay the same"),
    "graphs": ("", "CUDA graphs; without them every kernel is launched on its own"),
    "revision": ("NAME", "branch, tag or commit of the target on the hub"),
    "draft_revision": ("NAME", "branch, tag or commit of the draft model on the hub"),
    "device_map": ("MAP", "spread the target over all devices: auto, balanced, ..."),
    "trust_remote_code": ("", "run code that a model contains"),
    "allow_pickle": ("", "read weights from pickle files, which can run code"),
}
_FLAGS = {"heads": "head"}  # field -> option, where the names differ
OF_DRAFTS = ("draft", "head", "draft_revision", "emulate", "graphs")  # no use to who asks for a target alone
_WHERE_FROM = ("revision", "draft_revision", "device_map", "trust_remote_code", "allow_pickle")


def model_options(without: Collection[str] = (), about: Mapping[str, str] = {}) -> list[inspect.Parameter]:
    """The options of loading, without those named in `without`; `about` is a command's own help for some of them."""
    kinds, defaults = get_type_hints(LoadSettings), {field.name: field.default for field in fields(LoadSettings)}
    chosen = {}
    for name, (metavar, words) in _LOADING.items():
        flag, panel = _FLAGS.get(name, name), LOADING if name in _WHERE_FROM else MODELS
        if flag not in without:
            chosen[flag] = typed(kinds[name], option(about.get(flag, words), defaults[name], panel, metavar))
    return options_of(chosen)


MODEL_OPTIONS = model_options()
SERVED = model_options(
    about={"target": "hub id, folder, GGUF file, or a name: smollm2, embedded, ...; default: smollm2, else embedded"}
)


def models(given: Given, drafter: str | None = None) -> tuple[LoadSettings, str | None]:
    """The models that were named, and the drafter's name: '--drafter eagle3:MODEL' names a drafter and its head.

    Without a drafter's name it is the usual one for the target, if the target is a known model that is loaded alone.
    """
    values = dict(given)
    heads = tuple(values.pop("head", ()))
    name, _, source = (drafter or "").partition(":")
    if source:
        drafter, heads = name, (*heads, f"{name}:{source}")
    load = LoadSettings(**values, heads=heads)
    if sentence := same_name(load):
        terminal.print_note(sentence)
    return load, drafter or usual_drafter(load)


def load(chosen: LoadSettings) -> DecodingEngine:
    """Loads the models; a line on stderr says what they cannot do."""
    beforehand.begin(chosen)
    with terminal.show_loading() as watch, watched_by(watch):
        tell(Stage.START)
        import draftscope

        engine = draftscope.load(**asdict(chosen), progress=False)
    weights = [f"'{model.name}' has {model.weights}." for model in engine.models if model.weights]
    if any(model.widened for model in engine.models):
        weights.append("'--dtype stored' reads them as they are stored, which makes plain decoding faster.")
    for sentence in [*weights, *engine.left_out, *engine.limits, *engine.compiled]:
        terminal.print_note(sentence)
    if engine.threads is not None:
        (terminal.print_note if engine.threads.disturbed else terminal.print_status)(str(engine.threads))
    return engine


THREADS: int | None = option("threads; default: all cores", None, ge=1, le=os.cpu_count())  # of what trains

# Settings of a run.

_OF_PROMPT = {"raw", "system", "thinking"}
_OF_SAMPLING = {
    "rule", "lenience", "agreement", "temperature", "top_k", "top_p", "min_p", "seed", "max_new_tokens", "stop",
}  # fmt: skip
DRAFTERS = "name of the drafter; 'draftscope drafters' lists them; default: the usual one for these models"
_METAVARS = {"drafter": "NAME", "arms": "NAME:FORM,..."}


def _panel(name: str) -> str:
    if name in _OF_PROMPT:
        return PROMPT
    return SAMPLING if name in _OF_SAMPLING else DRAFTER


def settings_options(of: Collection[str] = ()) -> list[inspect.Parameter]:
    """The options of a run, for `takes`: one for each known setting, those of other packages' drafters included; or
    `of` those alone.

    A drafter's option with several values takes them separated by commas; a stop string may contain one.
    """
    known = known_settings()
    known["drafter"] = changed(known["drafter"], description=DRAFTERS, default=None)
    shown = {
        name: changed(field, json_schema_extra={"panel": _panel(name), "metavar": _METAVARS.get(name)})
        for name, field in known.items()
        if not of or name in of
    }
    return options_of(shown, by_commas=frozenset(known_options()))


OF_SERVERS = ("temperature", "top_k", "top_p", "min_p", "seed", "stop")


def sampling_options(without: Collection[str] = (), **defaults: Any) -> list[inspect.Parameter]:
    """How a server is asked to sample. `defaults` are a command's own, where they differ from a run's."""
    known = {name: field for name, field in known_settings().items() if name in OF_SERVERS and name not in without}
    shown = {
        name: changed(field, default=defaults.get(name, field.default), json_schema_extra={"panel": SAMPLING})
        for name, field in known.items()
    }
    return options_of(shown)


def settings(given: Given, drafter: str | None = None) -> Settings:
    """The settings that were given, or a `DraftscopeError`; what was not given keeps its default."""
    values = dict(given)
    if drafter is not None:
        values["drafter"] = drafter
    return Settings.of(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})
