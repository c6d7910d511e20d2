"""The app's pure parts: folds for the plots, controls and addresses, the theme, the script that is shipped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.race import race
from draftscope.drafters.registry import find
from draftscope.drafters.settings import Settings, known_settings
from draftscope.trace.events import AnyEvent
from draftscope.trace.metrics import fold
from draftscope_app.doors.door import doors, tasks
from draftscope_app.engine import select
from draftscope_app.engine.jobs import DrafterChoice
from draftscope_app.engine.site import Site
from draftscope_app.page import bundle, page
from draftscope_app.page.controls import LANE, as_setting, defaults, from_query, lanes, names, options
from draftscope_app.page.plots import views
from draftscope_app.page.plots.run_plots import pictures
from draftscope_app.page.runs.feed import delta, note
from draftscope_app.page.theme import gradio_theme, page_css, palette
from draftscope_app.serve import server
from draftscope_app.serve.doors import page_doors
from draftscope_app.serve.server import refuse_taken, serve
from tests.support.framed import free_port
from tests.support.links import OWN_SETTINGS

CHAIN = DrafterChoice("draft", "Draft model, chain", True, True, "", ("gamma", "rule"))


@pytest.fixture(scope="module")
def raced(pair: DecodingEngine) -> list[AnyEvent]:
    lanes = {"plain": {"drafter": "plain"}, LANE: {"drafter": "draft", "gamma": 3}}
    settings = {name: Settings.of(temperature=1.0, seed=5, max_new_tokens=40, **own) for name, own in lanes.items()}
    return list(race([pair.start("a", own, run="r", lane=name) for name, own in settings.items()]))


# Folds.


def test_gaps_are_those_of_chunks(raced: list[AnyEvent]) -> None:
    for own in views.by_lane(raced).values():
        gaps, rounds = views.chunk_gaps(own), views.rounds_of(own)
        assert len(gaps) == len(rounds) - 1
        assert sum(gaps) == pytest.approx(rounds[-1].end - rounds[0].end)


def test_alpha_by_position_is_the_engines_with_its_counts(raced: list[AnyEvent]) -> None:
    own = views.by_lane(raced)[LANE]
    for row in views.acceptance_by_position(own):
        assert row.alpha == (None if row.reached == 0 else pytest.approx(row.accepted / row.reached))
    assert [row.alpha for row in views.acceptance_by_position(own)] == fold(own).conditional_acceptance_per_position


def test_accepted_lengths_count_every_drafting_round(raced: list[AnyEvent]) -> None:
    own = views.by_lane(raced)[LANE]
    counts = views.accepted_lengths(own)
    assert sum(counts.values()) == fold(own).num_drafts
    assert sum(k * n for k, n in counts.items()) == fold(own).num_accepted_tokens
    assert list(counts) == list(range(max(counts) + 1))


def test_pictures_are_drawn_of_what_is_there(raced: list[AnyEvent]) -> None:
    assert all(pictures(raced))
    assert pictures([]) == (None, None, None)
    plain = views.by_lane(raced)["plain"]
    gaps, positions, lengths = pictures(plain)
    assert gaps is not None
    assert positions is None
    assert lengths is None


# Controls and addresses.


def test_lanes_are_plain_beside_the_drafter_with_what_it_reads() -> None:
    controls = defaults() | {"prompt": "x", "temperature": 0.7, "seed": 3, "gamma": 6, "typed": "unused"}
    common = {"temperature": 0.7, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 3, "max_new_tokens": 128}
    assert lanes(controls, CHAIN) == {
        "plain": Settings.of(**common, drafter="plain"),
        LANE: Settings.of(**common, drafter="draft", gamma=6, rule="block"),
    }
    assert list(lanes(defaults() | {"drafter": "plain"}, None)) == ["plain"]


def test_until_the_engine_has_said_what_is_read_what_was_set_is_sent_too() -> None:
    drafting = lanes(defaults() | {"prompt": "x", "drafter": "sampled-tree", "shape": "3,2"}, None)[LANE]
    assert drafting.shape == (3, 2)
    assert "gamma" in drafting.model_fields_set and "typed" not in drafting.model_fields_set


@pytest.mark.parametrize(
    ("controls", "words"),
    [
        (defaults() | {"gamma": 99}, "gamma = 99"),
        (defaults() | {"temperature": -1.0}, "temperature = -1"),
        (defaults() | {"top_p": 0.0}, "top_p = 0"),
        (defaults() | {"top_k": -1}, "top_k = -1"),
        (defaults() | {"min_p": 1.0}, "min_p = 1"),
        (defaults() | {"seed": -1}, "seed = -1"),
        (defaults() | {"seed": 1.5}, "seed = 1.5"),
        (defaults() | {"seed": None}, "seed = None"),
        (defaults() | {"max_new_tokens": 0}, "max_new_tokens = 0"),
    ],
)
def test_what_is_out_of_range_is_one_sentence(controls: dict[str, Any], words: str) -> None:
    with pytest.raises(DraftscopeError, match=re.escape(words)) as error:
        lanes(controls, CHAIN)
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)


def test_drafters_that_cannot_run_or_have_nothing_to_say_are_refused() -> None:
    with pytest.raises(DraftscopeError, match="no draft model"):
        lanes(defaults(), DrafterChoice("draft", "Draft", True, False, "no draft model is loaded", ("gamma",)))
    with pytest.raises(DraftscopeError, match="typed draft is empty"):
        lanes(defaults() | {"drafter": "typed"}, DrafterChoice("typed", "You", True, True, "", ("typed",)))


def test_shapes_are_read_and_refused() -> None:
    assert [as_setting("shape", options()["shape"], text) for text in ("3, 2,1", "3x2x1")] == [(3, 2, 1)] * 2
    with pytest.raises(DraftscopeError, match="shape = 'wide'"):
        as_setting("shape", options()["shape"], "wide")
    with pytest.raises(DraftscopeError, match="keep a tree to"):
        lanes(
            defaults() | {"drafter": "sampled-tree", "shape": "40, 40"},
            DrafterChoice("sampled-tree", "", True, True, "", ("shape",)),
        )


def test_every_setting_of_a_run_has_a_control() -> None:
    """But those of a chat, stop strings and `raw`, which the command line has."""
    assert set(known_settings()) - set(names()) == {"raw", "system", "thinking", "stop"}


def test_arms_are_read_as_the_command_line_reads_them() -> None:
    bandit = DrafterChoice("bandit", "Bandit", True, True, "", ("policy", "arms", "rule"))
    values = lanes(
        defaults() | {"drafter": "bandit", "arms": " draft:2 ,sampled-tree:2x1,, ngram", "policy": "exp3"}, bandit
    )[LANE].model_dump()
    assert (values["arms"], values["policy"]) == (("draft:2", "sampled-tree:2x1", "ngram"), "exp3")
    arms = options()["arms"]
    assert as_setting("arms", arms, defaults()["arms"]) == arms.default
    with pytest.raises(DraftscopeError, match=r"arms = \(\)"):
        lanes(defaults() | {"drafter": "bandit", "arms": " , "}, bandit)


def test_an_address_fills_the_controls_and_says_what_it_could_not_read() -> None:
    query = {
        "prompt": "hello & <b>",
        "temperature": "0.5",
        "gamma": "six",
        "seed": "7",
        "__theme": "dark",
        "top_p": "nan",
    }
    controls, sentence = from_query(query, defaults())
    assert controls == defaults() | {"prompt": "hello & <b>", "temperature": 0.5, "seed": 7}
    assert "gamma = 'six'" in sentence
    assert from_query({}, defaults()) == (defaults(), "")


@pytest.mark.parametrize(("query", "wanted"), OWN_SETTINGS)
def test_a_links_settings_are_those_of_the_drafting_lane(query: str, wanted: dict[str, Any]) -> None:
    controls, sentence = from_query(dict(parse_qsl(query)), defaults() | {"prompt": "x"})
    drafter = find(controls["drafter"])
    choice = DrafterChoice(drafter.name, drafter.title, True, True, "", tuple(drafter.uses))
    settings = lanes(controls, choice)[LANE].model_dump()
    assert sentence == ""
    assert json.loads(json.dumps({name: settings[name] for name in wanted})) == wanted


# What is shipped.


def test_deltas_are_json_that_begins_with_what_changes() -> None:
    text = delta(3, "r9", ['{"a": 1}', '{"b": "\\u003c"}'], state="running", waits="")
    assert text.startswith('{"seq": 3')
    assert json.loads(text) == {"seq": 3, "run": "r9", "ev": [{"a": 1}, {"b": "<"}], "state": "running", "waits": ""}
    assert note("same") != note("same")


def modules(pattern: str) -> dict[str, Path]:
    """The files of the page's script by the names of their modules: the instrument's, and those of the tasks."""
    folder = assets() / "instrument"
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob(pattern)}
    return found | {f"{mount}/{path.name}": path for mount, path in _of_tasks(pattern)}


def _of_tasks(pattern: str) -> Iterator[tuple[str, Path]]:
    for folder in (*doors(), *tasks()):
        for path in folder.path.glob(pattern):
            yield folder.mount, path


def test_the_script_holds_no_file_of_the_instrument_twice() -> None:
    script = page.script(Site(), [])  # without what cards alone import
    counts = {name: script.count(f'modules["{name}"] = ') for name in modules("*.js")}
    assert {*counts.values()} <= {0, 1} and counts["host/element.js"] == counts["base/store.js"] == 1


def test_the_script_can_stand_inside_a_script_element() -> None:
    assert "</script" not in bundle.script().lower()
    assert "<!--" not in bundle.script()


def test_the_instrument_never_writes_markup_from_data() -> None:
    """lit-html writes the markup of its templates, in which a value can only become a text or an attribute."""
    written = [path for path in modules("*.js").values() if path.parent.name != "vendor"]
    for path in (*written, *(path for door in doors() for path in door.path.glob("*/*/*.js"))):
        text = re.sub(r"(?<!:)//.*", "", path.read_text(encoding="utf-8"))
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|unsafeHTML|unsafeSVG|document\.write|eval\(|new Function", text
        ), path
        linked = set(re.findall(r"https?://([^/\s\"`]+)", text))  # for a reader to follow, never for the page to read
        assert linked <= {"huggingface.co", "www.w3.org", "arxiv.org", "github.com", "127.0.0.1:8100"}, path


@pytest.mark.parametrize("chat", [False, True])
def test_presets_are_two_of_each_of_six_kinds(chat: bool) -> None:
    kinds = bundle.presets(chat)
    assert list(kinds) == ["story", "code", "verse", "dialogue", "Q&A", "structured"]
    assert all(len(prompts) == 2 and all(prompt.strip() for prompt in prompts) for prompts in kinds.values())


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("name", ["light", "dark"])
def test_every_colour_can_be_read_on_every_ground(name: str) -> None:
    colours = palette()[name]
    for ground in ("page", "card", "soft"):
        for ink in set(colours) - {"page", "card", "soft", "rule"}:
            light, dark = sorted((luminance(colours[ink]), luminance(colours[ground])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, ink, ground)


def test_the_theme_names_no_font_that_would_be_fetched() -> None:
    assert "http" not in page_css(path for door in page_doors() for path in door.styles)
    assert not [sheet for sheet in gradio_theme()._stylesheets if "http" in sheet]


def test_a_taken_port_is_named_with_the_remedy() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(DraftscopeError, match=f"Port {port}.*--port"):
            refuse_taken("127.0.0.1", port)
    with pytest.raises(DraftscopeError, match="port = 0"):
        refuse_taken("127.0.0.1", 0)


@pytest.mark.parametrize("looks", ["thread", pytest.param("process", marks=pytest.mark.slow)])
def test_a_server_does_not_start_on_a_drafter_that_does_not_exist(monkeypatch: pytest.MonkeyPatch, looks: str) -> None:
    """Another process looks, which imports torch: that takes seconds."""
    if looks == "thread":
        monkeypatch.setattr(server, "ProcessPoolExecutor", lambda count, _: ThreadPoolExecutor(count))
    monkeypatch.setattr(select, "engine", lambda *_: pytest.fail("started"))
    with pytest.raises(DraftscopeError, match=r"There is no drafter 'nope'; known are plain, draft, .*oracle\."):
        serve("127.0.0.1", free_port(), drafter="nope", block=False)
