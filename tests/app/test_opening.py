"""Which models a server opens on, what it falls back to, and which drafter is chosen for them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

import draftscope
from draftscope import DraftscopeError, drafters
from draftscope.base.load_settings import LoadSettings
from draftscope.decode.engine import DecodingEngine
from draftscope.models.loading import embedded, sources
from draftscope.models.loading.known import usual_drafter
from draftscope_app.cli import command_options
from draftscope_app.engine import opening_models
from draftscope_app.engine.jobs import DrafterChoice, EngineStatus
from draftscope_app.engine.opening_models import is_chat, loading, opened, ready
from draftscope_app.page import opening_settings as page_opening
from draftscope_app.page.controls import defaults, names
from draftscope_app.page.listeners.engine_status import EngineListeners, able, engine_message
from draftscope_app.page.shared import Shared
from tests.support.formats import FORMS, folder

OF_THE_HEAD = ("eagle3", "eagle3-sampled-tree")
OF_SMOLLM2 = usual_drafter(LoadSettings(target="smollm2"))
ABSENT = "'smollm2' is not on this machine; connect to a network once."
OFFLINE = (
    "SmolLM2-135M-Instruct is not on this machine and cannot be downloaded now, so the embedded pair is loaded; "
    "connect to a network and start again."
)


@pytest.fixture
def asked(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The targets that are asked for; 'smollm2' cannot be had."""
    targets: list[Any] = []

    def load(target: Any = None, *_: Any, **__: Any) -> DecodingEngine:
        targets.append(target)
        if target == "smollm2":
            raise DraftscopeError(ABSENT)
        return pair

    monkeypatch.setattr(draftscope, "load", load)
    return targets


def test_a_server_opens_on_smollm2(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Any] = []

    def load(target: Any = None, *_: Any, **__: Any) -> DecodingEngine:
        loaded.append(target)
        return pair

    monkeypatch.setattr(draftscope, "load", load)
    assert opened(LoadSettings()) == (pair, "")
    assert loaded == ["smollm2"]
    assert is_chat(LoadSettings()) and not is_chat(LoadSettings(target="embedded"))


def test_what_cannot_be_had_is_replaced_by_the_embedded_pair(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Offline: the page says so in one sentence, the terminal why."""
    monkeypatch.setattr(sources, "_local", lambda _: None)
    engine, instead = opened(LoadSettings())
    assert asked == ["smollm2", None]
    assert ready(engine, 1.0, instead=instead).sentence.startswith(f"{OFFLINE} ")
    assert capsys.readouterr().err == f"draftscope: {ABSENT}\n"


def test_what_is_here_and_cannot_be_loaded_is_replaced_too(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_local", lambda _: "here")
    assert opened(LoadSettings())[1] == (
        f"SmolLM2-135M-Instruct cannot be loaded, so the embedded pair is used: {ABSENT}"
    )


@pytest.mark.parametrize("named", [{"target": "smollm2"}, {"draft": "smollm2"}, {"heads": ("eagle3:folder",)}])
def test_models_that_were_named_are_not_replaced(
    named: dict[str, Any], asked: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Why they cannot be had is said in the terminal too."""
    monkeypatch.setattr(opening_models, "OPENS_ON", "other")
    if "target" in named:
        with pytest.raises(DraftscopeError, match="is not on this machine"):
            opened(LoadSettings(**named))
    else:
        opened(LoadSettings(**named))
    assert asked == [named.get("target")]
    assert capsys.readouterr().err == (f"draftscope: {ABSENT}\n" if "target" in named else "")


def test_the_embedded_pair_goes_by_a_name(
    pair_folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(embedded, "home", lambda name: pair_folders[name != "target"])
    with draftscope.load("embedded", dtype="float32", threads=1) as engine:
        assert engine.draft is not None
    monkeypatch.chdir(tmp_path)
    (tmp_path / "embedded").mkdir()
    assert not embedded.is_pair("embedded")  # a folder of that name is meant


def test_the_page_says_that_a_model_is_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sources, "_local", lambda _: None)
    assert loading(LoadSettings(target="embedded")) == "The engine loads the embedded pair."
    assert loading(LoadSettings(draft="draft-2l")) == "The engine loads the embedded pair."
    assert loading(LoadSettings(target="here/folder")) == "The engine loads folder."
    words = "The engine downloads SmolLM2-135M-Instruct, which is not on this machine yet, and loads it."
    assert loading(LoadSettings(target="smollm2")) == loading(LoadSettings()) == words
    monkeypatch.setattr(sources, "_local", lambda _: "here")
    assert loading(LoadSettings()) == "The engine loads SmolLM2-135M-Instruct."


def test_what_is_left_out_of_a_checkpoint_is_said_on_the_page_and_in_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (form,) = (form for form in FORMS if form.name == "an adapter (LoRA) beside the weights")
    sentence = f"'{tmp_path}' has an adapter (LoRA) of 'some/base' beside its weights, which is not applied"
    with command_options.load(LoadSettings(target=str(folder(form, tmp_path)), dtype="float32", threads=1)) as engine:
        assert sentence in ready(engine, 1.0).sentence
    assert f"draftscope: {sentence}" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["eagle3", "eagle3-tree", "hybrid"])
def test_a_drafter_brings_the_head_that_it_needs(name: str) -> None:
    """The head's kind is known where models are loaded, since that takes torch."""
    assert command_options.models({}, f"{name}:folder") == (LoadSettings(heads=(f"{name}:folder",)), name)


@pytest.mark.parametrize(
    ("given", "drafter", "chosen"),
    [
        ({"target": "smollm2"}, None, OF_SMOLLM2),
        ({"target": "smollm2"}, "suffix", "suffix"),
        ({"target": "smollm2", "draft": "other"}, None, None),
        ({}, None, None),
    ],
)
def test_a_known_target_alone_has_a_drafter(given: dict[str, Any], drafter: str | None, chosen: str | None) -> None:
    assert command_options.models(given, drafter)[1] == chosen


def choice(name: str, there: bool, usual: str = "ngram") -> DrafterChoice:
    uses = drafters.known()[name].uses if name in drafters.known() else ()
    return DrafterChoice(name, name, True, there, "", uses, usual=name == usual)


def test_a_drafter_that_cannot_run_is_not_chosen() -> None:
    alone = [
        choice(name, name not in ("draft", "eagle3")) for name in ("plain", "draft", "eagle3", "early-exit", "ngram")
    ]
    assert able("draft", alone) == able("eagle3", alone) == "ngram"
    assert able("early-exit", alone) == "early-exit"
    peek = [choice("early-exit", True), choice("peek", True, usual="peek")]
    assert able("sampled-tree", peek) == "peek"  # of a head from elsewhere, the only one that was loaded
    pair = [choice(name, name != "eagle3") for name in ("plain", "early-exit", "draft", "eagle3")]
    assert able("eagle3", pair) == "draft"
    assert able("draft", [choice("plain", True), choice("typed", True)]) == "draft"


def test_where_a_drafter_cannot_run_a_similar_one_stands_in() -> None:
    head = [
        choice(n, n.startswith("eagle3") or n == "ngram", "eagle3")
        for n in ("draft", "sampled-tree", *OF_THE_HEAD, "ngram")
    ]
    assert [able(name, head) for name in ("draft", "sampled-tree", "cascade")] == ["eagle3", OF_THE_HEAD[1], "eagle3"]
    message = json.loads(engine_message(EngineStatus("ready", "stand-in", tuple(head), chat=True)))
    assert message["instead"] == {"draft": "eagle3", "sampled-tree": OF_THE_HEAD[1]} and message["chat"] is True


@pytest.mark.parametrize(("chat", "chosen"), [(True, "eagle3"), (False, "sampled-tree")])
def test_the_drafter_follows_the_models_that_were_loaded(chat: bool, chosen: str) -> None:
    """A page that expects SmolLM2 is served by the embedded pair where that cannot be had."""
    every = tuple(choice(name, True) for name in ("draft", "sampled-tree", *OF_THE_HEAD))
    admission: Any = SimpleNamespace(engine=SimpleNamespace(status=EngineStatus("ready", "", every, chat=chat)))
    values = defaults() | page_opening.settings(chat=True)
    listeners = EngineListeners(Shared(admission, SimpleNamespace(), values, ()), SimpleNamespace())  # type: ignore[arg-type]
    assert listeners.offered(values["drafter"])["value"] == chosen
    assert listeners.offered("draft")["value"] == "draft"


def test_an_opening_page_sets_no_control_that_its_address_does_not_name() -> None:
    """The answer may come late: what a visitor has changed meanwhile stays."""
    admission: Any = SimpleNamespace(engine=SimpleNamespace(status=SimpleNamespace(drafters=())))
    listeners = EngineListeners(Shared(admission, SimpleNamespace(), defaults(), ()), SimpleNamespace())  # type: ignore[arg-type]
    request: Any = SimpleNamespace(query_params={"seed": "5", "drafter": "ngram", "gamma": "six"})
    answer = dict(zip(names(), listeners.arrive(request), strict=False))
    changed = {name: value for name, value in answer.items() if value != gr.skip()}
    assert set(changed) == {"seed", "drafter", "gamma"}
    assert changed["seed"] == 5
