"""Options are declared once; the command line, the page, the API and the README follow, for plug-ins too."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import gradio as gr
import pytest
from pydantic import Field, model_validator

from draftscope import DraftscopeError, drafters
from draftscope.base.common_settings import Control, GeneralSettings
from draftscope.base.errors import PluginWarning
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters import DrafterInfo, DrafterOptions, Parts
from draftscope.drafters.lookup.ngram import Ngram
from draftscope.drafters.options import DECLARING, GammaOptions, NgramOptions, RuleOptions, nodes_in
from draftscope.drafters.registry import BUILT_IN, find, known_options
from draftscope.drafters.settings import Settings, known_settings
from draftscope_app.engine.admission import Admission
from draftscope_app.engine.jobs import DrafterChoice
from draftscope_app.engine.visitors import Visitors
from draftscope_app.page import controls
from draftscope_app.page.panel import panel
from draftscope_app.serve import decode_endpoint
from tests.drafters.test_plugin import Entry, plugged_in
from tests.support.options_table import options_table


class EchoOptions(GammaOptions):
    """The options of another package: a field of every type that an option may have."""

    echo_back: Annotated[int, Control("Tokens looked back", most=20)] = Field(
        default=5, ge=1, le=99, description="how far the echo looks back"
    )
    echo_mode: Annotated[Literal["soft", "loud"], Control(choices=("softly", "loudly"))] = Field(
        default="soft", description="how the echo sounds"
    )
    echo_gain: float = Field(default=0.5, ge=0.0, le=1.0, description="its gain")
    echo_twice: bool = Field(default=False, description="once more")
    echo_names: tuple[str, ...] = Field(default=("a", "b"), description="its names")
    echo_cap: int | None = Field(default=None, ge=1, description="its cap, if any")

    @model_validator(mode="after")
    def _loud_enough(self) -> EchoOptions:
        if self.echo_mode == "loud" and self.echo_gain < 0.1:
            raise ValueError("a loud echo needs a gain of at least 0.1")
        return self


class Echo(Ngram):
    """Copies n-grams as long as `echo_back`; keeps the options that it was made with."""

    made_with: EchoOptions

    def __init__(self, parts: Parts[EchoOptions]) -> None:
        Echo.made_with = parts.options
        given = {"gamma": parts.options.gamma, "ngram": parts.options.echo_back}
        super().__init__(Parts(**(vars(parts) | {"options": NgramOptions(**given)})))


ECHO = DrafterInfo(name="echo", title="Echo", paper="", create=Echo, options=EchoOptions)


ECHO_ENTRY = Entry(ECHO, value="echo_package.drafters:INFO")


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> None:
    plugged_in(monkeypatch, ECHO_ENTRY)


def conflicting(name: str, annotation: Any, **field: Any) -> type[DrafterOptions]:
    """A class of options with one field."""
    values = {"__annotations__": {name: annotation}, name: Field(**field), "__module__": __name__}
    return type("Conflicting", (DrafterOptions,), values)


# Declared once.


def test_every_drafters_options_are_declared_in_one_place() -> None:
    declared = [name for declaring in DECLARING for name in declaring.__annotations__]
    assert list(known_options()) == declared
    assert len(declared) == len(set(declared))
    assert set(declared) == {name for info in map(find, BUILT_IN) for name in info.uses}
    assert all(option.field.description and Control.of(option.field) for option in known_options().values())


def test_every_choice_has_its_label_and_every_condition_its_option() -> None:
    known = known_options()
    for option in known.values():
        control = Control.of(option.field)
        assert control is not None and control.label
        if control.choices:
            assert len(control.choices) == len(option.field.annotation.__args__)  # type: ignore[union-attr]
        if control.visible_if is not None:
            other, values = control.visible_if
            assert set(values) <= set(known[other].field.annotation.__args__)  # type: ignore[union-attr]


def test_options_are_listed_without_torch() -> None:
    code = (
        "import sys; from draftscope.drafters.settings import Settings, known_settings; "
        "Settings.of(gamma=3); known_settings(); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# Flat settings.


def test_options_are_read_by_drafter_and_kept_flat() -> None:
    settings = Settings.of(drafter="draft", gamma=6, seed=7, window=3)
    assert settings.options(GammaOptions) == GammaOptions(gamma=6)
    assert settings.options(RuleOptions) == RuleOptions()
    assert settings.model_dump() == GeneralSettings(drafter="draft", seed=7).model_dump() | {"gamma": 6, "window": 3}
    assert Settings.of(**settings.model_dump()) == settings
    assert Settings.of(**settings.model_dump(mode="json")) == settings


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"gama": 3}, "There is no setting 'gama'; did you mean 'gamma'?"),
        ({"colour": 3}, "There is no setting 'colour'; known are drafter, "),
        ({"gamma": 0}, "gamma = 0: should be greater than or equal to 1."),
        ({"drafter": "ngram", "window": 99}, "window = 99: should be less than or equal to 32."),
        ({"shape": (9, 9, 9)}, "shape = (9, 9, 9): makes 819 nodes; keep a tree to 256."),
        ({"rule": "kind"}, "rule = 'kind': should be 'block', 'token', 'typical', 'lenient' or 'top-k'."),
    ],
)
def test_a_wrong_value_is_one_sentence_whichever_drafter_reads_it(values: dict[str, Any], sentence: str) -> None:
    for make in (Settings.of, Settings):
        with pytest.raises(DraftscopeError) as error:
            make(**values)
        assert str(error.value).startswith(sentence)


def test_a_trace_tells_all_that_the_drafter_read(tiny: DecodingEngine) -> None:
    start = tiny.decode("abcab", "ngram", gamma=2, max_new_tokens=4).events[0]
    assert {name: start.settings[name] for name in ("gamma", "ngram", "seed")} == {"gamma": 2, "ngram": 3, "seed": 0}
    assert "shape" not in start.settings


def test_an_arm_takes_the_runs_own_options(tiny: DecodingEngine) -> None:
    settings = Settings.of(drafter="bandit", arms=("ngram", "topk-tree"), gamma=7, shape=(9,))
    assert drafters.find("bandit").max_nodes(settings) == 9
    assert drafters.find("bandit").max_nodes(Settings.of(drafter="bandit", arms=("ngram",), gamma=7)) == 7


def test_the_most_nodes_of_a_round_follow_from_the_options() -> None:
    settings = Settings.of(gamma=5, shape=(4, 2), tree_nodes=11, window=4, ngram=4)
    expected = {"plain": 0, "draft": 5, "topk-tree": nodes_in((4, 2)), "sequoia": 11, "lookahead": 24, "typed": 256}
    assert {name: drafters.find(name).max_nodes(settings) for name in expected} == expected


# Another package's drafter.


def test_an_option_of_another_package_is_known_and_validated(echo: None) -> None:
    assert list(known_options())[-6:] == list(EchoOptions.__annotations__)
    assert known_options()["echo_back"].package == "echo_package"
    assert known_options()["gamma"].package == "draftscope"
    assert Settings.of(echo_back="7", echo_names=["x"]).model_dump()["echo_names"] == ("x",)
    with pytest.raises(DraftscopeError, match="echo_back = 0: should be greater than or equal to 1"):
        Settings.of(echo_back=0)
    with pytest.raises(DraftscopeError, match="a loud echo needs a gain"):
        Settings.of(echo_mode="loud", echo_gain=0.0)
    with pytest.raises(DraftscopeError, match="did you mean 'echo_back'"):
        Settings.of(echo_bak=3)


def test_an_option_of_another_package_reaches_its_drafter_and_the_trace(echo: None, tiny: DecodingEngine) -> None:
    run = tiny.decode("abcab", "echo", gamma=2, echo_back=2, max_new_tokens=6)
    assert Echo.made_with == EchoOptions(gamma=2, echo_back=2)
    assert run.token_ids == tiny.decode("abcab", "plain", max_new_tokens=6).token_ids
    assert {name: run.events[0].settings[name] for name in ("echo_back", "echo_mode")} == {
        "echo_back": 2, "echo_mode": "soft",
    }  # fmt: skip
    assert max(len(each.nodes) for each in run.round_events) <= 2
    assert "echo_back" in next(info for info in tiny.drafters() if info.name == "echo").uses


PACKAGE = """
from draftscope.drafters import DrafterInfo, GammaOptions
from pydantic import Field


class Options(GammaOptions):
    echo_back: int = Field(default=5, ge=1, le=99, description="how far the echo looks back")
    echo_names: tuple[str, ...] = Field(default=("a",), description="its names")


INFO = DrafterInfo(name="echo", title="Echo", paper="", options=Options, create=lambda parts: None)  # none is made here
"""


@pytest.fixture
def echo_installed(tmp_path: Path) -> Path:
    """A folder with a package that adds a drafter, as pip installs one."""
    (tmp_path / "echo_package.py").write_text(PACKAGE, encoding="utf-8")
    (tmp_path / "echo_package-1.0.dist-info").mkdir()
    metadata = {"METADATA": "Metadata-Version: 2.1\nName: echo_package\nVersion: 1.0\n"}
    metadata["entry_points.txt"] = "[draftscope.drafters]\necho = echo_package:INFO\n"
    for name, text in metadata.items():
        (tmp_path / "echo_package-1.0.dist-info" / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.slow
def test_an_option_of_an_installed_package_is_on_the_command_line(echo_installed: Path) -> None:
    """In a fresh process, which finds the package as any other."""
    code = (
        "from draftscope_app.cli.main import main; "
        "main(['decode', '--help']); main(['decode', 'ab', '--echo-names', 'x,y', '--echo-back', '0'])"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(echo_installed)]), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert re.search(r"--echo-back +N +how far the echo looks back \[1 to 99; default: 5\]", done.stdout)
    assert re.search(r"--echo-names +TEXT +its names", done.stdout)
    assert done.stderr == "draftscope: echo_back = 0: should be greater than or equal to 1.\n"


def test_an_option_of_another_package_has_its_widget(echo: None) -> None:
    async def built() -> dict[str, gr.components.Component]:
        with gr.Blocks():
            return panel(controls.defaults(), 512)[0]

    widgets = asyncio.run(built())  # without a running loop Gradio makes some and never closes them
    assert tuple(widgets) == controls.names()
    kinds = {name: type(widgets[name]) for name in EchoOptions.__annotations__}
    assert kinds == {
        "echo_back": gr.Slider, "echo_mode": gr.Dropdown, "echo_gain": gr.Slider, "echo_twice": gr.Checkbox,
        "echo_names": gr.Textbox, "echo_cap": gr.Textbox,
    }  # fmt: skip
    slider: Any = widgets["echo_back"]
    assert (slider.label, slider.minimum, slider.maximum, slider.visible) == ("Tokens looked back", 1, 20, False)
    assert widgets["echo_mode"].choices == [("softly", "soft"), ("loudly", "loud")]  # type: ignore[attr-defined]


def test_an_option_of_another_package_is_read_from_the_page_and_its_address(echo: None) -> None:
    choice = DrafterChoice("echo", "Echo", True, True, "", ECHO.uses)
    query = {"drafter": "echo", "echo_back": "9", "echo_twice": "true", "echo_names": "x, y", "echo_cap": "4"}
    chosen, sentence = controls.from_query(query, controls.defaults())
    assert sentence == ""
    values = controls.lanes(chosen, choice)[controls.LANE].model_dump()
    assert {name: values[name] for name in EchoOptions.__annotations__} == {
        "echo_back": 9, "echo_mode": "soft", "echo_gain": 0.5, "echo_twice": True, "echo_names": ("x", "y"),
        "echo_cap": 4,
    }  # fmt: skip


def test_an_option_of_another_package_is_an_argument_of_the_api(echo: None) -> None:
    endpoint = decode_endpoint.endpoint(Admission.__new__(Admission), Visitors())
    parameters = inspect.signature(endpoint).parameters
    assert list(parameters)[2:] == list(known_settings())
    assert (parameters["echo_back"].default, parameters["echo_back"].annotation) == (5, int)
    assert parameters["echo_names"].annotation == list[str]
    assert "echo_back: how far the echo looks back" in (endpoint.__doc__ or "")


def test_an_option_of_another_package_is_in_the_table(echo: None) -> None:
    row = next(line for line in options_table().splitlines() if "`echo_back`" in line)
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "`echo_back`", "5", "1 to 99", "how far the echo looks back", "`echo`",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (conflicting("gamma", float, default=0.5), "'draftscope' and 'other_package' declare the option 'gamma'"),
        (
            conflicting("echo_back", str, default=""),
            "'echo_package' and 'other_package' declare the option 'echo_back'",
        ),
        (conflicting("seed", int, default=3), "'other_package' declares an option 'seed', which is a setting of every"),
        (conflicting("other", int), "'other' of the package 'other_package' needs a default"),
    ],
)
def test_an_option_that_cannot_stand_beside_the_others_is_refused(
    monkeypatch: pytest.MonkeyPatch, options: type[DrafterOptions], sentence: str
) -> None:
    other: Any = DrafterInfo(name="other", title="", paper="", create=Echo, options=options)  # type: ignore[type-var]
    plugged_in(monkeypatch, ECHO_ENTRY, Entry(other, value="other_package:INFO"))
    with pytest.warns(PluginWarning, match=f"{sentence}.* It was left out"):
        assert known_options()["echo_back"].package == "echo_package"
    assert "echo" in drafters.known() and "other" not in drafters.known()
    with pytest.raises(DraftscopeError, match=sentence):
        drafters.find("other")


def test_two_packages_may_share_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    shared: Any = DrafterInfo(name="shared", title="", paper="", create=Echo, options=EchoOptions)
    plugged_in(monkeypatch, ECHO_ENTRY, Entry(shared, value="other_package:INFO"))
    assert known_options()["echo_back"].package == "echo_package"
