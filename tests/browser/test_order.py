"""Answers that come in another order than they were asked for, and presses that come too early: what was wanted last is
shown, and nothing of it is lost. No server: a test gives each answer when it wants."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope_app.doors.learn.lessons.page import delta_of
from tests.support.alone import Alone
from tests.support.raced import race_of
from tests.support.school import lessons_page

pytestmark = pytest.mark.browser

LESSON = "coin"
# A host whose functions wait: `asked` are the questions, each with what gives its answer.
WAITING = """() => { window.asked = [];
    const wait = (name) => (question) => new Promise((give) => asked.push({ name, question, give }));
    const names = ["servers", "looks", "recorded", "starts", "logged_rounds", "lesson", "recording"];
    Draftscope.connect({ events: ["race", "inside"], trigger: () => {},
        server: Object.fromEntries(names.map((name) => [name, wait(name)])) }); }"""
ASKED = "(e, name) => asked.filter((each) => each.name === name).map(({ question }) => question)"
GIVE = "(e, [name, at, answer]) => asked.filter((each) => each.name === name).at(at).give(answer)"


@pytest.fixture(scope="module")
def path(pair: DecodingEngine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's file with the cards of all doors."""
    return lessons_page(tmp_path_factory.mktemp("order") / "run.html", race_of(pair, drafter="draft"), {LESSON: ""})


class Asking(Alone):
    """The file behind a door, before a host whose answers wait."""

    def __init__(self, browser: Any, path: Path, door: str) -> None:
        super().__init__(browser, path, f"?door={door}")
        self.page.evaluate(WAITING)

    def asked(self, name: str, times: int) -> list[Any]:
        """The questions of that name, once there are so many."""
        self.page.wait_for_function(
            "([name, times]) => asked.filter((each) => each.name === name).length >= times", arg=[name, times]
        )
        found: list[Any] = self.ask(ASKED, name)
        return found

    def give(self, name: str, at: int, answer: Any) -> None:
        self.ask(GIVE, [name, at, answer])
        self.painted()


@pytest.fixture
def servers(browser: Any, path: Path) -> Iterator[Asking]:
    """The list of servers, with two in it."""
    page = Asking(browser, path, "servers")
    page.ask("e => e.request()")
    page.asked("servers", 1)
    listed = [{"name": name, "url": f"http://127.0.0.1/{name}"} for name in ("one", "two")]
    page.give("servers", 0, {"servers": listed, "canAdd": True, "programs": "", "note": ""})
    page.asked("looks", 2)
    yield page
    page.close()


def seen(words: str) -> dict[str, Any]:
    return {"answers": True, "ms": 1, "words": words}


def test_a_server_that_is_added_while_another_is_asked_for_is_added(servers: Asking) -> None:
    """The press was lost."""
    servers.ask("e => { for (const add of ['a', 'b']) e.cards.view('servers').ask({ add }); }")
    answer = {"servers": [], "canAdd": True, "programs": "", "note": ""}
    assert servers.asked("servers", 2) == [{}, {"add": "a"}]
    servers.give("servers", 1, answer)
    assert servers.asked("servers", 3) == [{}, {"add": "a"}, {"add": "b"}]


def test_of_two_looks_at_a_server_the_later_one_is_shown(servers: Asking) -> None:
    servers.element.get_by_role("button", name="Look again at one").click()
    assert servers.asked("looks", 3) == ["one", "two", "one"]
    servers.give("looks", 2, seen("it is up"))
    servers.give("looks", 0, seen("it is silent"))
    servers.give("looks", 1, seen("the other one"))
    said = servers.element.locator(".answering").all_inner_texts()
    assert "it is up" in said[0] and "the other one" in said[1]


def test_of_two_servers_that_are_looked_into_the_later_one_is_shown_until_it_is_closed(servers: Asking) -> None:
    for name in ("one", "two"):
        servers.element.get_by_role("button", name=f"Inside {name}").click()
    assert servers.asked("recorded", 2) == ["one", "two"]
    for at in (1, 0):
        servers.give("recorded", at, {"recorded": ["r"], "servers": ["one", "two"]})
    assert servers.element.get_by_role("heading", name="Inside two").is_visible()
    servers.element.get_by_role("button", name="Look again", exact=True).click()
    servers.asked("recorded", 3)
    servers.element.locator(".audit", has_text="Inside two").get_by_role("button", name="Close").click()
    servers.give("recorded", 2, {"recorded": ["r"], "servers": ["one", "two"]})
    assert servers.element.get_by_role("heading", name="Inside two").count() == 0


def test_of_two_programs_that_are_chosen_the_later_one_is_shown(servers: Asking) -> None:
    known = {"programs": ["vllm", "sglang"], "commands": [["plain", "command"]], "more": "more", "setup": ""}
    servers.asked("starts", 1)
    servers.give("starts", 0, known | {"program": "vllm"})
    for program in ("sglang", "vllm"):
        servers.element.get_by_label("Program", exact=True).select_option(program)
    servers.asked("starts", 3)
    servers.give("starts", 2, known | {"program": "vllm"})
    servers.give("starts", 1, known | {"program": "sglang"})
    assert servers.ask("e => e.cards.view('start').known.program") == "vllm"


DROPPED = """(e, names) => { for (const name of names) e.cards.view("rounds").open(new File([name], name)); }"""


def test_of_two_logs_that_are_opened_the_later_one_is_shown(servers: Asking) -> None:
    said = {"said": "read", "unknown": "", "notes": [], "rows": [], "heads": [], "positions": [], "course": None}
    servers.ask(DROPPED, ["long.log", "short.log"])
    names = [question["name"] for question in servers.asked("logged_rounds", 2)]
    for name in ("short.log", "long.log"):
        servers.give("logged_rounds", names.index(name), said)
    card = servers.element.get_by_label("The log of an engine")
    assert card.locator(".verdict").inner_text() == "short.log"
    servers.ask(DROPPED, ["long.log"])
    servers.asked("logged_rounds", 3)
    card.get_by_role("button", name="Close").click()
    servers.give("logged_rounds", 2, said)
    assert card.locator(".verdict").count() == 0


TO_WATCH = """() => { history.replaceState(null, "", location.pathname + "?door=watch");
    dispatchEvent(new PopStateEvent("popstate")); }"""


def test_a_lesson_that_comes_after_another_door_was_opened_does_not_begin(browser: Any, path: Path) -> None:
    """It took the place of the run on Watch."""
    page = Asking(browser, path, "learn")
    page.element.locator(".path button").first.click()
    page.asked("lesson", 1)
    page.page.evaluate(TO_WATCH)
    page.give("lesson", 0, delta_of(LESSON, LESSON))
    assert page.ask("e => [e.guest, e.cards.view('lessons').trace, e.store.run]") == [None, "", "r"]
    page.close()


# Around a scene's form the controls of a page, whose host sets them late, and by what they held when it was asked.
CONTROLS = """() => {
    document.body.insertAdjacentHTML("beforeend",
        '<div id="ds-prompt"><textarea></textarea></div>' +
        '<button id="ds-run">Run</button><button id="ds-stop">Stop</button>');
    const prompt = document.querySelector("#ds-prompt textarea"), rules = { names: [], visibleIf: {}, reads: [] };
    window.held = { prompt: "", drafter: "plain" };
    window.late = [];
    const hold = (values) => {
        Object.assign(held, values);
        prompt.value = held.prompt;
        Draftscope.show({ ...rules, first: {} }, { drafter: held.drafter });
    };
    const trigger = (kind, { payload }) => {
        const values = { ...held, ...payload };
        late.push(() => hold(values));
    };
    Draftscope.connect({ events: ["set"], trigger, server: {} });
    Draftscope.readEngine({ ...rules, first: { drafter: "plain" } }, '{"able": ["plain", "draft", "ngram"]}');
    hold({});
    document.querySelector("#ds-run").addEventListener("click", () => { window.ran = { ...held }; });
}"""


def scene_run(browser: Any, path: Path, drafter: str = "plain") -> Alone:
    """A scene in which Run waits for what the page's controls do not hold yet: a prompt, and a drafter."""
    page = Alone(browser, path)
    page.page.evaluate(CONTROLS)
    page.ask("""e => { e.feed('{"arrived": true}'); e.scenes.to(1); }""")
    form = page.element.locator(".scene-run")
    form.get_by_role("textbox", name="Prompt").fill("told in a scene")
    form.get_by_role("combobox", name="Drafter").select_option(drafter)
    form.get_by_role("button", name="Run").click()
    page.page.wait_for_function("() => late.length > 2")  # it has looked again and again
    return page


def test_a_run_of_a_scene_waits_until_the_page_holds_all_that_was_set_there(browser: Any, path: Path) -> None:
    """It waited a quarter of a second, and the second setting undid the first."""
    page = scene_run(browser, path, "ngram")
    page.page.wait_for_function("() => late.length > 4")
    assert page.page.evaluate("() => window.ran ?? null") is None
    page.page.evaluate("() => { for (const act of late) act(); }")
    page.page.wait_for_function("() => window.ran")
    assert page.page.evaluate("ran") == {"prompt": "told in a scene", "drafter": "ngram"}
    page.close()


LOOKS = "() => new Promise((done) => setTimeout(done, 300))"  # it has looked three times


def test_who_leaves_a_scene_takes_back_a_run_that_waits_there(browser: Any, path: Path) -> None:
    """It began at once, with another prompt than the one that was set."""
    page = scene_run(browser, path)
    page.ask("e => e.scenes.to(0)")
    page.page.evaluate(LOOKS)
    page.page.evaluate("() => { for (const act of late) act(); }")
    page.page.evaluate(LOOKS)
    assert page.page.evaluate("() => window.ran ?? null") is None
    page.close()


def test_a_run_of_a_scene_that_the_page_never_hears_of_is_given_up_in_a_sentence(browser: Any, path: Path) -> None:
    """It waited without an end. A later press goes on from what was set."""
    page = scene_run(browser, path)
    page.page.evaluate("() => { const now = performance.now() + 11000; performance.now = () => now; }")
    page.until("e => e.message.text.textContent.startsWith('The page has not taken over what was set here')")
    asked = page.page.evaluate("late.length")
    page.page.evaluate(LOOKS)
    assert page.page.evaluate("[late.length, window.ran ?? null]") == [asked, None]
    page.page.evaluate("() => { late.length = 0; }")
    page.element.locator(".scene-run").get_by_role("button", name="Run").click()
    page.page.wait_for_function("() => late.length > 1")
    page.page.evaluate("() => { for (const act of late) act(); }")
    page.page.wait_for_function("() => window.ran")
    assert page.page.evaluate("ran.prompt") == "told in a scene"
    page.close()


def test_a_stop_takes_back_a_run_that_waits_for_the_settings_of_the_address(browser: Any, path: Path) -> None:
    """It began all the same."""
    page = Alone(browser, path)
    page.page.evaluate(CONTROLS)
    page.page.click("#ds-run")
    assert page.page.get_attribute("#ds-run", "aria-busy") == "true"
    page.page.click("#ds-stop")
    assert page.page.get_attribute("#ds-run", "aria-busy") is None
    page.ask("""e => e.feed('{"arrived": true}')""")
    page.page.evaluate("() => new Promise((done) => setTimeout(done, 100))")  # a press that waits goes on after 50
    assert page.page.evaluate("() => window.ran ?? null") is None
    page.close()
