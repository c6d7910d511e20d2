"""A class in the browser: a projector, and phones that predict. No model is loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from draftscope.trace.events import AnyEvent
from draftscope_app.doors.learn.classroom import bells
from draftscope_app.doors.learn.classroom import rooms as guesses
from draftscope_app.doors.learn.classroom.allowances import Rate
from draftscope_app.doors.learn.classroom.deck import shipped
from draftscope_app.doors.learn.classroom.questions import Question
from draftscope_app.doors.learn.classroom.room import Room
from draftscope_app.doors.learn.classroom.rooms import Rooms
from draftscope_app.doors.learn.classroom.shown_lessons import LessonStep, recorded
from tests.doors.learn.classroom.class_server import served_class
from tests.support.browsers import SLOW_MS, assert_accessible
from tests.support.framed import free_port
from tests.support.visit import forget

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def class_url() -> Iterator[str]:
    with served_class() as url:
        yield url


@pytest.fixture
def open_page(browser: Any, class_url: str) -> Iterator[Any]:
    """Opens a page of the class at a width, in a theme; what a script reports there fails the test. At another `url`
    the network may break, which a browser reports, too. Its `clock` is the test's where it "runs" or "stands"."""
    contexts, errors = [], []

    def open_at(path: str, width: int, height: int, theme: str, url: str = "", clock: str = "") -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if reports(message, url) else None)
        if clock:
            page.clock.install(time=0)
        if clock == "stands":
            page.clock.pause_at(1)
        page.goto(f"{url or class_url}{path}")
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert not errors


def reports(message: Any, url: str) -> bool:
    return message.type == "error" and not (url and message.text.startswith("Failed to load resource"))


FIRST = shipped().questions[0]
TRUE = FIRST.options[FIRST.truth]
WRONG = next(n for n in range(len(FIRST.options)) if n != FIRST.truth)


def assert_measured(projector: Any, question: Question, votes: dict[int, int]) -> None:
    """Of each answer the projector shows what was measured, to scale, and who said so."""
    rows = projector.locator(".tally li")
    assert rows.locator(".measured b").all_inner_texts() == [bar.value for bar in question.bars]
    widths = rows.locator(".measured i").evaluate_all("(all) => all.map((bar) => bar.getBoundingClientRect().width)")
    long = [bar.part > 0.1 for bar in question.bars]
    parts = [width / max(widths) for width in widths]
    assert [part for part, drawn in zip(parts, long, strict=True) if drawn] == pytest.approx(
        [bar.part for bar, drawn in zip(question.bars, long, strict=True) if drawn], abs=0.01
    )
    assert [row.locator(".dots i").count() for row in rows.all()] == [votes.get(n, 0) for n in range(rows.count())]


def choose(phone: Any, option: int) -> None:
    phone.locator(f"button[data-option='{option}']").click()
    phone.get_by_text("Your answer is in").wait_for()


class Held:
    """The first request of a pattern is kept until a test lets it go, or `answered` its answer is; those after it go
    through."""

    def __init__(self, page: Any, pattern: str, answered: bool = False) -> None:
        self.page, self.answered = page, answered
        self._kept: list[tuple[Any, Any]] = []
        page.route(pattern, self._take)

    def _take(self, route: Any) -> None:
        if self._kept:
            route.continue_()
        else:
            self._kept.append((route, route.fetch() if self.answered else None))

    def wait_for(self) -> None:
        while not self._kept:
            self.page.wait_for_timeout(10)

    def go(self) -> None:
        """Behind whatever the page has sent since, if it has sent anything."""
        self.wait_for()
        self.passed()
        ((route, answer),) = self._kept
        if self.answered:
            route.fulfill(response=answer)
        else:
            route.continue_()
        self.passed()

    def passed(self) -> None:
        """What was sent before has arrived, and the page has heard the answers."""
        self.page.evaluate("() => fetch('join').then((answer) => answer.text())")


def test_a_class_predicts_and_sees_what_happened(open_page: Any) -> None:
    projector = open_page("/class", 1920, 1080, "light")
    projector.get_by_role("button", name="Open a room").click()
    code = projector.locator(".lobby .code").inner_text()
    assert_accessible(projector)
    phones = [open_page(f"/join?{code}", 390, 844, "dark"), open_page("/join", 390, 844, "light")]
    phones[1].get_by_label("Code on the projector").fill(code.lower())
    phones[1].get_by_role("button", name="Join").click()
    for phone in phones:
        phone.get_by_text("The presenter starts.").wait_for()
    projector.keyboard.press("Space")
    for option, phone in enumerate((WRONG, FIRST.truth)):
        choose(phones[option], phone)
        assert_accessible(phones[option])
    projector.get_by_text("2 of 2").wait_for()
    assert TRUE not in projector.locator("h1").inner_text() and not projector.locator(".truth").count()
    before = projector.locator(".tally .option").first.bounding_box()
    projector.keyboard.press("Space")
    projector.locator(".truth").wait_for()
    phones[1].get_by_role("heading", name=f"You said {TRUE}. It was {TRUE}.").wait_for()
    phones[0].get_by_role("heading", name=f"You said {FIRST.options[WRONG]}. It was {TRUE}.").wait_for()
    assert projector.locator(".tally .option").first.bounding_box()["x"] == before["x"]
    assert_measured(projector, FIRST, {WRONG: 1, FIRST.truth: 1})
    for page in (projector, *phones):
        assert_accessible(page)
        assert page.get_by_text(FIRST.said).count() == 1
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert phones[0].locator(".bars li b").all_inner_texts() == [bar.name for bar in FIRST.bars]
    phones[0].reload()  # whoever reloads is where the class is, with the answer given before
    phones[0].get_by_role("heading", name=f"You said {FIRST.options[WRONG]}. It was {TRUE}.").wait_for()
    projector.reload()
    projector.locator(".truth").wait_for()
    projector.get_by_role("button", name="End the class").click()
    phones[1].get_by_role("heading", name=f"It was {TRUE}.").wait_for()  # one press ends nothing
    projector.get_by_role("button", name="End it for everybody?").click()
    projector.get_by_text("of 1: the class, by its most frequent answer").wait_for()
    phones[1].get_by_role("heading", name="You were right 1 of 1 times.").wait_for()


def test_every_question_and_its_reveal_fit_a_projector(open_page: Any) -> None:
    rooms = Rooms(9, 300)
    with served_class(rooms) as url:
        projector = open_page("/class", 1920, 1080, "light", url)
        projector.get_by_role("button", name="Open a room").click()
        projector.locator(".lobby .code").wait_for()
        (room,) = rooms._rooms.values()
        for number, question in enumerate(shipped().questions):
            for shown in (question.ask, f"It was {question.options[question.truth]}."):
                steps = 1 + (len(question.hints) if shown != question.ask else 0)
                for _ in range(steps):
                    projector.keyboard.press("PageDown")
                projector.get_by_role("heading", name=shown, exact=True).wait_for()
                below = projector.evaluate("document.documentElement.scrollHeight - innerHeight")
                assert below <= 0, (number + 1, room.phase, below)


def test_of_two_answers_the_later_one_counts_though_the_first_is_slow(open_page: Any) -> None:
    rooms = Rooms(9, 300)
    with served_class(rooms) as url:
        room = rooms.open(shipped())
        room.turn("next")
        phone = open_page(f"/join?{room.code}", 390, 844, "light", url)
        held = Held(phone, "**/answer")
        phone.locator(f"button[data-option='{WRONG}']").click()
        held.wait_for()
        phone.locator(f"button[data-option='{FIRST.truth}']").click()
        held.go()
        phone.get_by_text("Your answer is in").wait_for()
        assert [list(one.answers.values()) for one in room.phones.values()] == [[FIRST.truth]]


def test_two_quick_presses_open_one_room(open_page: Any) -> None:
    rooms = Rooms(9, 300)
    with served_class(rooms) as url:
        projector = open_page("/class", 1440, 900, "light", url)
        held = Held(projector, "**/class/rooms")
        projector.get_by_role("button", name="Open a room").dblclick()
        held.go()
        projector.locator(".lobby .code").wait_for()
        assert len(rooms._rooms) == 1


def test_two_quick_presses_at_the_last_question_do_not_end_the_class(open_page: Any) -> None:
    """The second one ended it for everybody, unasked: the page did not know yet what the first had led to."""
    rooms = Rooms(9, 300)
    with served_class(rooms) as url:
        projector = open_page("/class", 1440, 900, "light", url)
        projector.get_by_role("button", name="Open a room").click()
        projector.get_by_label("Begin with").select_option(str(len(shipped().questions) - 1))
        projector.get_by_role("button", name="Start").click()
        projector.get_by_role("button", name="Reveal").wait_for()
        held = Held(projector, "**/turn")
        projector.keyboard.press("PageDown")
        held.wait_for()
        projector.keyboard.press("PageDown")
        held.go()
        projector.get_by_role("button", name="End it for everybody?").wait_for()
        assert [room.phase for room in rooms._rooms.values()] == ["reveal"]
        projector.keyboard.press("PageDown")
        projector.get_by_role("heading", name="The class has ended.").wait_for()


class Waiting:
    """A verifier that has no time yet."""

    async def decode(self, *_: Any) -> list[AnyEvent]:
        await asyncio.Event().wait()
        return []

    def prompt(self) -> str:
        return "Tell me of an otter."


def presented(open_page: Any, url: str, room: Room) -> Any:
    """The projector of a room that is there."""
    projector = open_page("/class", 1440, 900, "light", url)
    kept = {"code": room.code, "key": room.key, "ticket": room.ticket, "questions": []}
    projector.evaluate("room => sessionStorage.setItem('draftscope-class', JSON.stringify(room))", kept)
    projector.reload()
    return projector


def drafting(rooms: Rooms) -> Room:
    """A room whose class drafts."""
    room = rooms.open(shipped())
    room.drafts = True
    room.turn("draft")
    return room


def test_two_quick_presses_in_a_round_of_the_class_do_not_end_it(open_page: Any) -> None:
    """The second one was sent beside the first: it found the text ended, and ended the class for everybody, unasked."""
    rooms = Rooms(9, 300)
    with served_class(rooms) as url:
        room = drafting(rooms)
        projector = presented(open_page, url, room)
        projector.get_by_role("button", name="Let the target verify").wait_for()
        held = Held(projector, "**/turn")
        projector.keyboard.press("PageDown")
        held.wait_for()
        projector.keyboard.press("PageDown")
        held.passed()  # whatever waits for nothing
        room.writing.ended = True
        room.verified(worked=True)
        held.go()
        projector.get_by_role("heading", name="The target is verifying.").wait_for()
        assert room.phase == "verify"
        room.verified(worked=True)
        httpx.post(f"{url}/class/{room.code}/join", json={})  # all hear of it
        projector.get_by_role("button", name="End the class").wait_for()
        assert projector.get_by_role("alert").count() == 0


def test_a_presenter_goes_back_while_the_target_still_looks_for_words(open_page: Any) -> None:
    """Its turn is answered once it has found them."""
    rooms = Rooms(9, 300)
    with served_class(rooms, verifier=Waiting()) as url:
        room = rooms.open(shipped())
        room.drafts = True
        room.turn("next")
        projector = presented(open_page, url, room)
        projector.get_by_role("button", name="The class drafts").click()
        projector.get_by_role("button", name="Let the target verify").wait_for()
        projector.locator("h1").click()
        projector.keyboard.press("PageUp")
        projector.get_by_role("heading", name=FIRST.ask).wait_for()


def test_a_key_before_the_first_state_of_a_room_does_nothing(open_page: Any) -> None:
    """It threw. A press that the presenter makes blindly must not start the class either."""
    projector, held = open_page("/class", 1440, 900, "light"), []
    projector.route("**/events*", lambda route: held.append(route))
    with projector.expect_request("**/events*"):
        projector.get_by_role("button", name="Open a room").click()
    for key in ("PageDown", "PageUp"):  # a space would press the button again
        projector.keyboard.press(key)
    held[0].continue_()
    projector.locator(".lobby .code").wait_for()


def test_a_device_has_one_vote_and_its_qr_code_leads_in_though_codes_are_refused(
    open_page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guesses, "GUESSES_OF_ADDRESS", Rate(1, 3600.0))
    rooms, port = Rooms(9, 300), free_port()
    with served_class(rooms, port, network=f"http://127.0.0.1:{port}/") as url:
        projector = open_page("/class", 1440, 900, "light", url)
        with projector.expect_request("**/qr") as qr:
            projector.get_by_role("button", name="Open a room").click()
        code = projector.locator(".lobby .code").inner_text()
        projector.locator(".lobby .qr[src^='data:image']").wait_for()
        httpx.post(f"{url}/class/{'QQQQQQ' if code != 'QQQQQQ' else 'WWWWWW'}/join", json={})
        link = qr.value.post_data_json["link"].removeprefix(url)
        phone = open_page(link, 390, 844, "light", url)
        phone.get_by_text("The presenter starts.").wait_for()
        second = phone.context.new_page()
        second.goto(f"{url}/join?{code}")  # its letters: the device is known
        second.get_by_text("The presenter starts.").wait_for()
        stranger = open_page(f"/join?{code}", 390, 844, "light", url)
        stranger.get_by_role("alert").get_by_text("scan the QR code").wait_for()
        projector.reload()
        projector.get_by_role("button", name="Start").click()
        choose(phone, 1)
        choose(second, 2)
        projector.get_by_text("1 of 1", exact=True).wait_for()
        assert len(rooms._rooms[code].phones) == 1


def test_a_class_that_phones_cannot_reach_says_so_in_the_codes_place_and_begins_when_it_is_told_to(
    open_page: Any, class_url: str
) -> None:
    """A chosen question waits for the start, and the last space asks before it ends a class."""
    projector = open_page("/class", 1920, 1080, "dark")
    projector.get_by_role("button", name="Open a room").click()
    said = projector.locator(".lobby .qr").inner_text()
    assert "phones cannot reach 127.0.0.1" in " ".join(said.split()) and not projector.locator("img").count()
    assert_accessible(projector)
    last = len(shipped().questions) - 1
    projector.get_by_label("Begin with").select_option(str(last))
    phone = open_page(f"/join?{projector.locator('.lobby .code').inner_text()}", 390, 844, "light")
    phone.get_by_text("The presenter starts.").wait_for()  # it did not begin
    projector.get_by_role("button", name="Start").click()
    choose(phone, 0)
    projector.locator("h1").click()
    projector.keyboard.press("Space")
    projector.locator(".truth").wait_for()
    assert projector.get_by_role("button", name="End the class").count() == 1
    projector.keyboard.press("Space")
    projector.get_by_role("button", name="End it for everybody?").wait_for()
    assert phone.get_by_role("heading", name="You said").count() == 1
    projector.keyboard.press("Space")
    phone.get_by_role("heading", name="You were right").wait_for()


def test_every_round_of_a_draft_shows_what_was_asked_and_propose_is_no_answer(open_page: Any) -> None:
    rooms = Rooms(9, 300)
    with served_class(rooms) as url:
        room = rooms.open(shipped())
        room.drafts, room.writing.prompt, room.writing.text = True, "Tell me of an otter.", "One day, an"
        room.writing.options = ("otter", "old", "zebra", "house")
        room.turn("draft")
        phone = open_page(f"/join?{room.code}", 390, 844, "light", url)
        phone.get_by_text("Tell me of an otter.").wait_for()
        assert phone.locator(".written").inner_text() == "One day, an"
        fill = "(button) => getComputedStyle(button).backgroundColor"
        answers = {button.evaluate(fill) for button in phone.locator(".answers button").all()}
        propose = phone.get_by_role("button", name="Propose")
        assert len(answers) == 1 and propose.evaluate(fill) not in answers
        box, field = propose.bounding_box(), phone.get_by_label("Your next words").bounding_box()
        assert box["x"] >= field["x"] + field["width"] and box["y"] == pytest.approx(field["y"], abs=1)
        assert_accessible(phone)


@pytest.mark.slow
def test_a_phone_without_a_code_is_asked_for_it_and_hints_come_one_by_one(open_page: Any, class_url: str) -> None:
    phone = open_page("/join?QQQQQQ", 390, 844, "light", url=class_url)  # of no room
    phone.get_by_text("it is mistyped").wait_for()
    phone.get_by_label("Code on the projector").fill("QQ")
    phone.get_by_role("button", name="Join").click()
    phone.get_by_text("The projector shows six letters.").wait_for()
    assert_accessible(phone)
    projector = open_page("/class", 1440, 900, "dark")
    projector.get_by_role("button", name="Open a room").click()
    projector.get_by_label("Begin with").select_option("2")
    projector.get_by_role("button", name="Start").click()
    seen = "n => document.querySelectorAll('.hint').length === n && !document.querySelector('.truth')"
    projector.get_by_role("button", name="Next hint").click()
    for hints in range(1, 4):  # a clicker is heard while the button has the focus
        projector.wait_for_function(seen, arg=hints)
        projector.keyboard.press("PageDown")
    projector.locator(".truth").wait_for()
    assert_accessible(projector)


ORDER = (
    "banner", "question 3 of 11", "main", "heading", "paragraph", 'list "Guesses of the draft"', "The draft gives it",
    'group "Your answer"', 'button "kept"', 'button "refused"', "contentinfo", "answered",
)  # fmt: skip


def test_a_phone_at_twice_the_size_shows_everything_in_the_order_in_which_it_is_read(open_page: Any) -> None:
    """Zoom of 200% halves the width in CSS pixels. Read are place, question, guess, hint, answers, state."""
    projector = open_page("/class", 1440, 900, "light")
    projector.get_by_role("button", name="Open a room").click()
    code = projector.locator(".lobby .code").inner_text()
    phone = open_page(f"/join?{code}", 195, 422, "light")
    fits = "[...document.querySelectorAll('body *')].every((e) => e.getBoundingClientRect().right <= innerWidth + 1)"
    phone.get_by_text("The presenter starts.").wait_for()
    assert phone.evaluate(fits)
    projector.get_by_label("Begin with").select_option("2")
    projector.locator("h1").click()
    for _ in range(2):
        projector.keyboard.press("PageDown")
        projector.get_by_role("button", name="Next hint").wait_for()
    phone.locator(".hint").wait_for()
    read = phone.locator("body").aria_snapshot()
    places = [read.find(words) for words in ORDER]
    assert -1 not in places and places == sorted(places), read
    for name in ("kept", "refused"):
        phone.keyboard.press("Tab")
        assert phone.evaluate("document.activeElement.textContent") == name
    phone.keyboard.press("Enter")
    phone.get_by_text("Your answer is in").wait_for()
    assert phone.evaluate(fits)
    assert_accessible(phone)
    projector.keyboard.press("PageDown")
    phone.locator(".hint").nth(1).wait_for()
    assert phone.evaluate("document.activeElement.textContent") == "refused"
    for _ in range(2):
        projector.keyboard.press("PageDown")
    phone.get_by_role("heading", name="You said refused.").wait_for()
    assert phone.evaluate(fits)


@pytest.mark.slow
def test_a_broken_network_and_a_restarted_server(open_page: Any) -> None:
    """After the first everybody is where the class is; after the second everybody is told that the room is over."""
    rooms, port = Rooms(9, 300), free_port()
    with served_class(rooms, port) as url:
        projector = open_page("/class", 1920, 1080, "light", url)
        projector.get_by_role("button", name="Open a room").click()
        code = projector.locator(".lobby .code").inner_text()
        phone = open_page(f"/join?{code}", 390, 844, "light", url, clock="runs")
        phone.get_by_text("The presenter starts.").wait_for()
        projector.keyboard.press("Space")
        choose(phone, FIRST.truth)
    for page in (phone, projector):
        page.get_by_role("alert").get_by_text("connection").wait_for()
    phone.clock.fast_forward(30_000)
    rooms.find(code).turn("next")  # the class goes on meanwhile
    with served_class(rooms, port):
        phone.clock.fast_forward(5_000)
        phone.get_by_role("heading", name=f"You said {TRUE}. It was {TRUE}.").wait_for()
        projector.locator(".truth").wait_for()
        assert not phone.get_by_role("alert").count() and not projector.get_by_role("alert").count()
    with served_class(port=port):
        for page in (phone, projector):
            for _ in range(99):
                if page.get_by_role("heading", name="The room is over.").count():
                    break
                phone.clock.run_for(1_000)
                page.wait_for_timeout(100)
            page.get_by_role("heading", name="The room is over.").wait_for()
            page.get_by_text("nothing of it is kept.").wait_for()
            assert_accessible(page)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert code not in page.locator("header").inner_text() and not page.get_by_role("alert").count()


def test_a_stream_that_falls_silent_is_opened_again(open_page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bells, "KEEP_ALIVE_S", 1e6)  # nothing more comes, and no connection is closed
    rooms = Rooms(9, 300)
    with served_class(rooms) as url:
        room = rooms.open(shipped())
        phone = open_page(f"/join?{room.code}", 390, 844, "light", url, clock="stands")
        phone.get_by_text("The presenter starts.").wait_for()
        room.turn("next")  # no bell rings, as if its news had been lost
        phone.clock.fast_forward(39_000)
        phone.get_by_text("The presenter starts.").wait_for()
        phone.clock.fast_forward(2_000)
        phone.get_by_role("alert").get_by_text("connection").wait_for()
        phone.clock.fast_forward(3_000)
        phone.get_by_role("heading", name=FIRST.ask).wait_for()
        assert not phone.get_by_role("alert").count()


def test_what_a_phone_types_stays_while_words_to_choose_from_come(open_page: Any) -> None:
    rooms = Rooms(9, 300)
    with served_class(rooms) as url:
        room = drafting(rooms)
        phone = open_page(f"/join?{room.code}", 390, 844, "light", url)
        field = phone.get_by_label("Your next words")
        field.press_sequentially("there ")
        room.writing.options = ("zebra", "was")
        httpx.post(f"{url}/class/{room.code}/join", json={})  # of another phone: all hear of it
        phone.get_by_role("button", name="zebra").wait_for()
        phone.keyboard.type("was")
        assert field.input_value() == "there was"
        phone.get_by_role("button", name="Propose").click()
        phone.get_by_text("You propose: there was.").wait_for()
        assert_accessible(phone)


def test_of_two_proposals_the_later_one_counts_though_the_first_is_slow(open_page: Any) -> None:
    rooms = Rooms(9, 300)
    with served_class(rooms) as url:
        room = drafting(rooms)
        phone = open_page(f"/join?{room.code}", 390, 844, "light", url)
        held = Held(phone, "**/propose")
        for words in ("once more", "there was"):
            phone.get_by_label("Your next words").fill(words)
            phone.get_by_role("button", name="Propose").click()
            held.wait_for()
        held.go()
        phone.get_by_text("You propose: there was.").wait_for()
        assert list(room.writing.proposals.values()) == ["there was"]


def test_the_presenters_list_of_words_is_never_an_older_one(open_page: Any) -> None:
    rooms = Rooms(9, 300)
    with served_class(rooms) as url:
        room = drafting(rooms)
        room.propose(room.join(), "a house")
        desk = open_page("/class", 480, 720, "light", url)
        desk.evaluate("room => sessionStorage.setItem('draftscope-class', JSON.stringify(room))", {
            "code": room.code, "key": room.key, "ticket": room.ticket,
        })  # fmt: skip
        held = Held(desk, "**/proposals", answered=True)
        desk.goto(f"{url}/class?desk")
        held.wait_for()
        httpx.post(f"{url}/class/{room.code}/propose", json={"phone": room.join(), "text": "a zebra"})
        desk.get_by_text("2 in the room").wait_for()  # it has heard of the second one
        held.go()
        desk.get_by_text("a zebra").wait_for()
        assert desk.locator(".proposals .context").count() == 2


def test_a_question_calls_back_a_phone_whose_lesson_is_still_on_its_way(open_page: Any) -> None:
    """It was drawn as a step of the class, which was at none."""
    rooms = Rooms(9, 300)
    with served_class(rooms) as url:
        room = rooms.open(shipped())
        room.show(LessonStep.model_validate(recorded()[1][0]))
        phone = open_page(f"/join?{room.code}", 390, 844, "light", url)
        held = Held(phone, "**/lessons*", answered=True)
        phone.get_by_role("button", name="Other lessons").click()
        held.wait_for()
        turn = f"{url}/class/{room.code}/turn"
        httpx.post(turn, json={"action": "next"}, headers={"x-class-key": room.key}).raise_for_status()
        phone.get_by_role("heading", name=FIRST.ask).wait_for()
        held.go()
        choose(phone, 0)
        assert phone.get_by_text("You wander").count() == 0


def test_a_phone_that_wanders_opens_any_lesson_and_comes_back(open_page: Any) -> None:
    rooms, titles = Rooms(9, 300), [steps[0]["title"] for steps in recorded()]
    with served_class(rooms) as url:
        room = rooms.open(shipped())
        for step in recorded()[1][:2]:  # the class is at the second step of the second lesson
            room.show(LessonStep.model_validate(step))
        phone = open_page(f"/join?{room.code}", 390, 844, "light", url)
        phone.get_by_text("Following the presenter · step 2").wait_for()
        phone.get_by_role("button", name="Other lessons").click()
        phone.get_by_text("You wander · the class is at step 2").wait_for()
        assert phone.locator(".answers button").all_inner_texts() == ["Back to the class", *titles]
        assert_accessible(phone)
        phone.get_by_role("button", name=titles[6]).click()
        for number, step in enumerate(recorded()[6]):
            if number:
                phone.get_by_role("button", name="A later step").click()
            phone.get_by_role("heading", name=titles[6]).wait_for()
            assert phone.locator(".said").inner_text().split() == step["words"].split()
        assert not phone.get_by_role("button", name="A later step").count()
        phone.get_by_role("button", name="Other lessons").click()
        phone.get_by_role("button", name=titles[1]).click()  # of the class's own no step that was not shown
        phone.get_by_role("button", name="A later step").click()
        assert not phone.get_by_role("button", name="A later step").count()
        phone.get_by_role("button", name="Back to the class").click()
        phone.get_by_text("Following the presenter · step 2").wait_for()


@pytest.mark.slow
def test_phones_follow_a_lesson_wander_come_back_and_answer_about_a_live_round(
    browser: Any, regulars: list[Any], address: str
) -> None:
    contexts = [browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark") for _ in range(2)]
    phone, late = (context.new_page() for context in contexts)
    presenter = tab(regulars[0], address, 1920, 1080)
    presenter.goto(f"{address}class")
    presenter.get_by_role("button", name="Open a room").click()
    code = presenter.locator(".lobby .code").inner_text()
    phone.goto(f"{address}join?{code}")
    phone.get_by_text("The presenter starts.").wait_for()
    presenter.goto(f"{address}?lesson=2")
    phone.get_by_role("heading", name="Lesson 2 of 11: Draft and verify").wait_for()
    assert phone.locator(".guesses .drafted").count() and not phone.locator(".guesses .accepted").count()
    held = Held(presenter, "**/show")  # the first of three quick steps is slow to arrive
    for _ in range(3):
        presenter.get_by_role("button", name="Next", exact=True).click()
        held.wait_for()
    held.go()
    phone.get_by_text("Following the presenter · step 4 of 6").wait_for()
    assert phone.locator(".guesses .accepted").count() and phone.locator(".said").inner_text().startswith("The same")
    phone.get_by_role("button", name="An earlier step").click()
    phone.get_by_text("You wander · the class is at step 4").wait_for()
    phone.get_by_role("button", name="An earlier step").click()
    assert phone.locator(".said").inner_text().startswith("The target processes")
    presenter.get_by_role("button", name="Next", exact=True).click()
    phone.get_by_text("You wander · the class is at step 5").wait_for()
    late.goto(f"{address}join?{code}")
    for page in (phone, late):
        assert_accessible(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    phone.get_by_role("button", name="Back to the class").click()
    for page in (phone, late):
        page.get_by_text("Following the presenter · step 5 of 6").wait_for()
        assert page.locator(".bars li").count() == 2
    kept = run_and_show(presenter, address, 1)
    offered = ask(presenter, "How many guesses in a row does the target keep?")
    assert "Which of these writes most tokens a second here?" in offered
    choose(phone, kept)
    presenter.get_by_text("1 of 2").wait_for()
    presenter.keyboard.press("Space")
    phone.get_by_role("heading", name=f"You said {kept}. It was {kept}.").wait_for()
    presenter.get_by_text("about a live run").wait_for()
    presenter.keyboard.press("Space")
    presenter.get_by_text("question 1 of 11").wait_for()
    presenter.close()
    for context in contexts:
        context.close()


def tab(who: Any, address: str, width: int, height: int) -> Any:
    """Another visitor's page, of this size and without motion."""
    forget(who, address)
    page = who.new_page()
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(reduced_motion="reduce")
    page.set_default_timeout(SLOW_MS)
    return page


def run_and_show(presenter: Any, address: str, round_: int, query: str = "") -> int:
    """Runs, and shows a round of the drafting lane; how many of its guesses were kept."""
    presenter.goto(f"{address}?max_new_tokens=32{query}")
    presenter.click("#ds-run")
    return show(presenter, round_)


def show(presenter: Any, round_: int) -> int:
    """A round of the drafting lane of the tab's run, once it is over; how many of its guesses were kept."""
    instrument = presenter.locator("draftscope-instrument")
    presenter.wait_for_function(
        "(e) => e.store.source === 'live' && e.state === 'done'", arg=instrument.element_handle()
    )
    instrument.evaluate("(e, round) => { e.transport.toEnd(); e.cursor.select(e.store.lanes.at(-1), round); }", round_)
    presenter.wait_for_function(
        "e => e.lanes.at(-1)?.shown === e.store.lanes.at(-1).tokens.length", arg=instrument.element_handle()
    )
    instrument.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    return int(instrument.evaluate("e => e.cursor.round.accepted"))


def ask(presenter: Any, question: str) -> list[str]:
    """Asks one of those that the run can be asked; all of them."""
    presenter.keyboard.press("a")
    dialog = presenter.get_by_role("dialog", name="What to ask the class")
    offered = dialog.get_by_role("button").all_inner_texts()
    assert_accessible(presenter)
    dialog.get_by_role("button", name=question).click()
    presenter.wait_for_url("**/class")
    return list(offered)


GUESS = "e.cursor.round.decisions.flatMap((d) => d.children).find((child) => child.node === e.cursor.at.key)"
RATES = "[...e.shadowRoot.querySelectorAll('.lane .rate')].map((rate) => Number(rate.textContent))"
ROUNDS = "e.store.lanes.at(-1).rounds"
LATE = f"{ROUNDS}.find((round) => round.index > 3 && /^[ -~]+$/.test(round.emitted_raw.join('')))"
HELD_UP = f"e => {{ const late = {LATE}; {ROUNDS}.slice(late.index).forEach((round) => {{ round.end += 5000; }}); }}"


QUESTIONS = [  # how it begins, what is true, and what is said at its reveal
    ("Is the guess", f"{GUESS}.passed ? 'kept' : 'refused'", "so the guess was"),
    (
        "Which of these writes most",
        f"e.lanes[{RATES}.indexOf(Math.max(...{RATES}))].root.querySelector('h3').textContent",
        "times as long as a plain one",
    ),
    ("Which of these bursts", f"{LATE}.emitted_raw.join('').replaceAll(' ', '·')", "The median of all"),
]


@pytest.mark.slow
def test_questions_about_a_live_run_are_answered_by_the_run_and_told_at_the_reveal(
    regulars: list[Any], address: str
) -> None:
    presenter, phone = (tab(who, address, width, 844) for who, width in zip(regulars, (1440, 390), strict=True))
    presenter.goto(f"{address}class")
    presenter.get_by_role("button", name="Open a room").click()
    phone.goto(f"{address}join?{presenter.locator('.lobby .code').inner_text()}")
    phone.get_by_text("The presenter starts.").wait_for()
    settings = "&temperature=1&rule=token&drafter=draft&gamma=3"
    run_and_show(presenter, address, 2, settings)
    for question, truth, said in QUESTIONS:
        if not presenter.url.startswith(f"{address}?"):
            presenter.goto(f"{address}?max_new_tokens=32{settings}")  # where its tab finds the run again
            show(presenter, 2)
        instrument = presenter.locator("draftscope-instrument")
        if said == "The median of all":
            instrument.evaluate(HELD_UP)
        true = instrument.evaluate(f"e => {truth}")
        ask(presenter, question)
        answer_and_reveal(presenter, phone, true, said)
    for page in (presenter, phone):
        page.close()


def answer_and_reveal(presenter: Any, phone: Any, true: str, said: str) -> None:
    """The phone is wrong; what is `said` at the reveal was said nowhere before."""
    phone.locator("button[data-option]", has_text=true).first.wait_for()
    options = phone.locator("button[data-option]").all_inner_texts()
    wrong = next(n for n, text in enumerate(options) if text != true)
    choose(phone, wrong)
    for page in (presenter, phone):
        page.get_by_text("1 of 1").wait_for()  # it shows the question
        assert said not in page.locator("body").inner_text()
    while presenter.get_by_role("button", name="Next hint").count():
        shown = presenter.locator(".hint").count()
        presenter.keyboard.press("Space")
        presenter.locator(".hint").nth(shown).wait_for()
    presenter.keyboard.press("Space")
    phone.get_by_role("heading", name=f"You said {options[wrong]}. It was {true}.").wait_for()
    for page in (presenter, phone):
        page.get_by_text(said).wait_for()
