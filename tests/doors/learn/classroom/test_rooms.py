"""A room's rules: who may do what, when answers close, what is shown, when it ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope_app.doors.learn.classroom import room as one_room
from draftscope_app.doors.learn.classroom.deck import Deck
from draftscope_app.doors.learn.classroom.questions import Question
from draftscope_app.doors.learn.classroom.room import Room
from draftscope_app.doors.learn.classroom.rooms import NoRoomError, NotPresenterError, Rooms
from draftscope_app.doors.learn.classroom.shown_lessons import LessonStep

QUESTIONS = tuple(
    Question(ask=f"Question {n}", options=("a", "b", "c"), truth=n, said=f"It was {n}.", hints=("hint",) * (n == 1))
    for n in range(3)
)

DECK = Deck(title="A class", questions=QUESTIONS)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def open_room(phones: int = 3) -> tuple[Rooms, Room, Clock]:
    clock = Clock()
    every = Rooms(rooms_most=2, phones_most=phones, clock=clock)
    return every, every.open(DECK), clock


def test_a_class_from_its_start_to_its_scores() -> None:
    _, room, _ = open_room()
    first, second = room.join(), room.join()
    room.turn("next")
    room.answer(first, 0, 2)
    room.answer(first, 0, 0)  # changed
    room.answer(second, 0, 1)
    assert room.state()["tally"] is None and room.state()["answered"] == 2
    room.turn("next")
    assert room.state()["tally"] == [1, 1, 0] and room.state()["question"]["truth"] == 0
    room.turn("next")
    assert room.state()["question"]["hints"] == () and room.state()["tally"] is None
    room.turn("next")
    assert room.state()["question"]["hints"] == ("hint",)
    room.answer(first, 1, 1)
    room.turn("next")
    assert room.state_for(first) | {"yours": 1, "right": 2, "judged": 2} == room.state_for(first)
    assert room.state_for(second)["right"] == 0 and room.state_for(second)["judged"] == 1
    room.turn("end")
    assert room.state()["scores"] == {"asked": 2, "class": 2, "best": 2, "chance": 0.7}


def test_a_question_that_was_answered_is_shown_again_and_not_asked_again() -> None:
    _, room, _ = open_room()
    phone = room.join()
    room.turn("next")
    room.answer(phone, 0, 0)
    for _ in range(2):
        room.turn("next")
    room.turn("back")
    assert (room.phase, room.number) == ("reveal", 0)
    with pytest.raises(DraftscopeError, match="closed"):
        room.answer(phone, 0, 1)


def test_the_step_that_would_end_a_class_is_told_before() -> None:
    _, room, _ = open_room()
    told = []
    while room.phase != "end":
        told.append(room.state()["endsNext"])
        room.turn("next")
    assert told == [False] * (len(told) - 1) + [True]
    _, room, _ = open_room()
    room.phase = "drafted"
    assert not room.state()["endsNext"]
    room.writing.ended = True
    assert room.state()["endsNext"]


TAKEN = Question(ask="How many?", options=("0", "1"), truth=1, said="One.")


def test_a_lesson_or_a_live_round_interrupts_the_questions_and_they_go_on_afterwards() -> None:
    _, room, _ = open_room()
    phone = room.join()
    room.show(LessonStep(title="Lesson 1", at=0, of=3, words="Look."))
    assert room.state()["step"]["words"] == "Look." and room.state()["question"] is None
    room.turn("next")
    room.answer(phone, 0, 0)
    room.take(TAKEN)  # the first question is still open: nothing of it is told
    assert (room.phase, room.number, room.state()["place"]) == ("ask", 3, "about a live run")
    assert room.state_for(phone)["judged"] == 0 and room.state()["question"]["options"] == ("0", "1")
    room.answer(phone, 3, 1)
    room.turn("next")
    assert room.state_for(phone) | {"right": 1, "judged": 1} == room.state_for(phone)
    room.turn("next")
    assert (room.phase, room.number, room.state_for(phone)["yours"]) == ("ask", 0, 0)
    room.turn("next")
    room.show(LessonStep(title="Lesson 1", at=1, of=3, words="And this."))
    with pytest.raises(DraftscopeError, match="closed"):
        room.answer(phone, 0, 1)
    room.turn("next")
    assert (room.phase, room.number) == ("ask", 1)
    room.turn("ask:3")
    assert (room.phase, room.state()["tally"]) == ("reveal", [0, 1])
    room.turn("back")
    assert (room.phase, room.number) == ("ask", 1)
    room.turn("end")
    assert room.state()["scores"] == {"asked": 2, "class": 2, "best": 2, "chance": 0.8}
    with pytest.raises(DraftscopeError, match="has ended"):
        room.take(TAKEN)


def refused(room: Room, phone: str) -> list[tuple[Callable[[], None], str]]:
    return [
        (lambda: room.answer("nobody", 0, 0), "not in the room"),
        (lambda: room.answer(phone, 1, 0), "closed"),
        (lambda: room.answer(phone, 0, 3), "option = 3"),
        (lambda: room.answer(phone, 0, -1), "option = -1"),
        (lambda: room.turn("ask:3"), "question = 3"),
        (lambda: room.turn("reboot"), "action = 'reboot'"),
    ]


def test_what_a_room_refuses_is_one_sentence() -> None:
    _, room, _ = open_room()
    phone = room.join()
    room.turn("next")
    for act, sentence in refused(room, phone):
        with pytest.raises(DraftscopeError, match=sentence):
            act()
    for n in range(one_room.CHANGES_MOST):
        room.answer(phone, 0, n % 2)
    with pytest.raises(DraftscopeError, match="too often"):
        room.answer(phone, 0, 2)


def test_a_full_room_forgets_phones_that_left_without_an_answer() -> None:
    _, room, _ = open_room(phones=2)
    here, gone = room.join(), room.join()
    room.come(here)
    assert room.join(here) == here
    later = room.join()
    assert gone not in room.phones and set(room.phones) == {here, later}
    room.come(later)
    with pytest.raises(DraftscopeError, match="has its 2 phones"):
        room.join()


def test_a_presenters_page_that_floods_is_slowed() -> None:
    every, room, clock = open_room()
    for _ in range(one_room.POSTS_MOST):
        assert every.present(room.code, room.key) is room
    with pytest.raises(DraftscopeError, match="wait a few seconds"):
        every.present(room.code, room.key)
    clock.now = one_room.POSTS_S
    assert every.present(room.code, room.key) is room


def test_only_who_opened_a_room_turns_its_pages_and_rooms_end_by_themselves() -> None:
    every, room, clock = open_room()
    assert every.present(room.code.lower(), room.key) is room
    with pytest.raises(NotPresenterError):
        every.present(room.code, "guessed")
    with pytest.raises(NoRoomError):
        every.find("ZZZZZZ" if room.code != "ZZZZZZ" else "YYYYYY")
    second = every.open(room.deck)
    for one in (room, second):
        one.join()
    with pytest.raises(DraftscopeError, match="has its 2 rooms"):
        every.open(room.deck)
    clock.now = one_room.IDLE_S - 1
    every.present(second.code, second.key)
    clock.now = one_room.IDLE_S + 1
    with pytest.raises(NoRoomError):
        every.find(room.code)
    assert room.phase == "end" and every.find(second.code) is second
    with pytest.raises(DraftscopeError, match="opens no rooms"):
        Rooms(0, 1).open(room.deck)
