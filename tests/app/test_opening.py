"""Which models a server opens on, what it falls back to, and which drafter is chosen for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

import draftscope
from draftscope import DraftscopeError
from draftscope.base.load_settings import LoadSettings
from draftscope.decode.lab import Lab
from draftscope.models.loading import sources
from draftscope.models.loading.known import usual_drafter
from draftscope_app.cli import options
from draftscope_app.engine import opening
from draftscope_app.engine.messages import DrafterChoice
from draftscope_app.engine.opening import loading, opened
from draftscope_app.engine.status import introduced
from draftscope_app.page.controls import defaults, names
from draftscope_app.page.listeners.engine import EngineListeners, able
from draftscope_app.page.shared import Shared
from draftscope_app.space import entry

OF_SMOLLM2 = usual_drafter(LoadSettings(target="smollm2"))
ABSENT = "'smollm2' is not on this machine; connect to a network once."


@pytest.fixture
def asked(pair: Lab, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The targets that are asked for; 'smollm2' cannot be had."""
    targets: list[Any] = []

    def load(target: Any = None, *_: Any, **__: Any) -> Lab:
        targets.append(target)
        if target == "smollm2":
            raise DraftscopeError(ABSENT)
        return pair

    monkeypatch.setattr(draftscope, "load", load)
    return targets


def test_a_server_opens_on_the_embedded_pair(asked: list[Any]) -> None:
    """`OPENS_ON` is the one switch; it stays off until drafters for a real model are shipped."""
    assert opening.OPENS_ON is None
    assert opened(LoadSettings())[1] == "" and asked == [None]


def test_what_cannot_be_had_is_replaced_by_the_embedded_pair(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "OPENS_ON", "smollm2")
    lab, instead = opened(LoadSettings())
    assert asked == ["smollm2", None]
    sentence = introduced(lab, 1.0, instead=instead)
    assert sentence.startswith(f"{ABSENT} The embedded pair is loaded instead. ")


def test_a_model_that_was_named_is_not_replaced(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "OPENS_ON", "other")
    with pytest.raises(DraftscopeError, match="is not on this machine"):
        opened(LoadSettings(target="smollm2"))
    assert asked == ["smollm2"]


def test_the_page_says_that_a_model_is_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sources, "_local", lambda _: None)
    assert loading(LoadSettings()) == "The engine loads the embedded pair."
    assert loading(LoadSettings(target="here/folder")) == "The engine loads folder."
    words = "The engine downloads smollm2, which is not on this machine yet, and loads it."
    assert loading(LoadSettings(target="smollm2")) == words
    monkeypatch.setattr(opening, "OPENS_ON", "smollm2")
    assert loading(LoadSettings()) == words


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
    assert options.models(given, drafter)[1] == chosen


def test_a_space_chooses_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from draftscope_app.serve import server

    served: list[Any] = []
    monkeypatch.setattr(server, "serve", lambda *args, **_: served.append(args[2:]))
    monkeypatch.setenv("DRAFTSCOPE_TARGET", "smollm2")
    assert entry.main(Path(__file__).parents[2]) == 0
    assert [(load.target, drafter) for load, drafter in served] == [("smollm2", OF_SMOLLM2)]


Choice: Callable[..., DrafterChoice] = lambda name, there: DrafterChoice(name, name, True, there, "", ())  # noqa: E731


def test_a_drafter_that_cannot_run_is_not_chosen() -> None:
    alone = [
        Choice(name, name not in ("draft", "eagle3")) for name in ("plain", "draft", "eagle3", "early-exit", "ngram")
    ]
    assert able("draft", alone) == able("eagle3", alone) == "ngram"
    assert able("early-exit", alone) == "early-exit"
    pair = [Choice(name, name != "eagle3") for name in ("plain", "early-exit", "draft")]
    assert able("eagle3", pair) == "draft"
    assert able("draft", [Choice("plain", True), Choice("typed", True)]) == "draft"


def test_an_opening_page_sets_no_control_that_its_address_does_not_name() -> None:
    """The answer may come late: what a visitor has changed meanwhile stays."""
    admission: Any = SimpleNamespace(engine=SimpleNamespace(status=SimpleNamespace(drafters=())))
    listeners = EngineListeners(Shared(admission, SimpleNamespace(), defaults(), ()), SimpleNamespace())  # type: ignore[arg-type]
    request: Any = SimpleNamespace(query_params={"seed": "5", "drafter": "ngram", "gamma": "six"})
    answer = dict(zip(names(), listeners.arrive(request), strict=False))
    changed = {name: value for name, value in answer.items() if value != gr.skip()}
    assert set(changed) == {"seed", "drafter", "gamma"}
    assert changed["seed"] == 5
