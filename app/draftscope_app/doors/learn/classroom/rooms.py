"""Rooms: who is in them, what is asked, who answered what. Kept in memory, ended by themselves, written nowhere.

No network and no clock of its own, so that every rule can be tested. Called from one event loop only.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from draftscope.base.errors import DraftscopeError
from draftscope_app.doors.learn.classroom.deck import Deck
from draftscope_app.doors.learn.classroom.drafting import PROPOSAL_MOST, ROUNDS_MOST, Writing
from draftscope_app.doors.learn.classroom.lessons import LessonStep, Shown
from draftscope_app.doors.learn.classroom.questions import Question

LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"  # without I and O, which are read as digits
CODE_LENGTH = 4
IDLE_S = 3600.0  # after which a room without its presenter ends
TAKEN_MOST = 100  # questions about live runs
CHANGES_MOST = 30  # of one phone's answer to one question
POSTS_MOST, POSTS_S = 100, 10.0  # of a presenter's pages, in so many seconds

Phase = Literal["lobby", "lesson", "ask", "reveal", "draft", "verify", "drafted", "end"]
DRAFTING = ("draft", "verify", "drafted")


class NoRoomError(DraftscopeError):
    """There is no room with that code."""


class NotPresenterError(DraftscopeError):
    """Only who opened a room may turn its pages."""


@dataclass
class Phone:
    """One phone: its answers by question, and how often it changed the present one."""

    answers: dict[int, int] = field(default_factory=dict)
    changes: int = 0
    connected: int = 0  # open streams


@dataclass
class Room:
    """One class: its questions, its phones, and where it is."""

    code: str
    key: str
    deck: Deck
    phones_most: int
    phase: Phase = "lobby"
    number: int = 0  # of the question
    hints: int = 0
    phones: dict[str, Phone] = field(default_factory=dict)
    used: float = 0.0  # when the presenter was last here
    posts: deque[float] = field(default_factory=lambda: deque(maxlen=POSTS_MOST))  # when the presenter's last ones came
    writing: Writing = field(default_factory=Writing)
    drafts: bool = False  # an engine is there that verifies what the class drafts
    lesson: Shown = field(default_factory=Shown)
    place: int = -1  # in the deck: the question that was asked last
    revealed: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.questions = list(self.deck.questions)  # and after them those about live runs

    @property
    def question(self) -> Question:
        return self.questions[self.number]

    def join(self, phone: str = "") -> str:
        """A phone's token: its earlier one, or a new one. Raises `DraftscopeError` where the room is full."""
        if phone in self.phones:
            return phone
        if len(self.phones) >= self.phones_most:
            self._forget_absent()
        if len(self.phones) >= self.phones_most:
            raise DraftscopeError(f"This room has its {self.phones_most} phones; look at the projector.")
        token = secrets.token_urlsafe(12)
        self.phones[token] = Phone()
        return token

    def find_phone(self, token: str) -> Phone:
        """Raises `DraftscopeError` for a phone that was forgotten."""
        if token not in self.phones:
            raise DraftscopeError("This phone is not in the room any more; reload the page.")
        return self.phones[token]

    def come(self, token: str) -> None:
        """A phone opened its stream."""
        self.phones[token].connected += 1

    def leave(self, token: str) -> None:
        """A phone closed it; its answers stay, so it may come back."""
        if token in self.phones:
            self.phones[token].connected -= 1

    def _forget_absent(self) -> None:
        """Phones that are not here and answered nothing, so that nobody can fill a room with none."""
        self.phones = {token: phone for token, phone in self.phones.items() if phone.connected or phone.answers}

    def answer(self, token: str, number: int, option: int) -> None:
        """Takes or changes a phone's answer until the reveal. Raises `DraftscopeError` for one that comes too late."""
        phone = self.find_phone(token)
        if self.phase != "ask" or number != self.number:
            raise DraftscopeError("This question is closed; answer the next one.")
        if not 0 <= option < len(self.question.options):
            raise DraftscopeError(f"option = {option}: the question has {len(self.question.options)} answers.")
        if phone.answers.get(number) == option:
            return
        if phone.changes >= CHANGES_MOST:
            raise DraftscopeError("This answer was changed too often; it stays as it is.")
        phone.changes += 1
        phone.answers[number] = option

    def propose(self, token: str, text: str) -> None:
        """Takes or changes what a phone proposes for this round. Raises `DraftscopeError` outside of one."""
        phone = self.find_phone(token)
        if self.phase != "draft":
            raise DraftscopeError("This round is closed; propose words for the next one.")
        if len(text) > PROPOSAL_MOST:
            raise DraftscopeError(f"These are {len(text)} characters; propose at most {PROPOSAL_MOST}.")
        if phone.changes >= CHANGES_MOST:
            raise DraftscopeError("This proposal was changed too often; it stays as it is.")
        phone.changes += 1
        if text.strip():
            self.writing.proposals[token] = text
        else:
            self.writing.proposals.pop(token, None)

    def show(self, step: LessonStep) -> None:
        """The presenter is in a lesson, and phones follow. A question that is open stays unanswered until later."""
        self._refuse_change()
        self.lesson.show(step)
        self.phase = "lesson"

    def take(self, question: Question) -> None:
        """Asks about a live run. Raises `DraftscopeError` after very many."""
        self._refuse_change()
        if len(self.questions) - len(self.deck.questions) >= TAKEN_MOST:
            raise DraftscopeError(f"This class was asked {TAKEN_MOST} questions about live runs; open another room.")
        self.questions.append(question)
        self._ask(len(self.questions) - 1)

    def _refuse_change(self) -> None:
        if self.phase == "verify":
            raise DraftscopeError("The target is verifying; wait for it.")
        if self.phase == "end":
            raise DraftscopeError("This class has ended; open another room.")

    def turn(self, action: str) -> None:
        """The presenter's step: `next`, `back`, `end`, `draft`, `ask:N` to choose a question, or `look`."""
        if action == "look":
            return
        self._refuse_change()
        if action == "next":
            self._next()
        elif action == "draft":
            self._draft()
        elif action == "back":
            back = self.phase in ("ask", "reveal") and self.number < len(self.deck.questions)
            self._ask(self.place - 1 if back else max(self.place, 0))
        elif action == "end":
            self.phase = "end"
        elif action.startswith("ask:") and action[4:].isdecimal():
            self._ask(int(action[4:]))
        else:
            raise DraftscopeError(f"action = '{action[:20]}': a presenter says next, back, end or ask:N.")

    def _next(self) -> None:
        """Hint by hint to the reveal, then the next question; after the last one the end."""
        if self.phase == "ask" and self.hints < len(self.question.hints):
            self.hints += 1
        elif self.phase == "ask":
            self.phase = "reveal"
            self.revealed.add(self.number)
        elif self.phase == "draft":
            self.phase = "verify"
        elif self.ends_next:
            self.phase = "end"
        elif self.phase == "drafted":
            self._draft()
        else:
            self._ask(self._following())

    @property
    def ends_next(self) -> bool:
        """`next` would end the class: its text has ended, or the deck's last question is answered."""
        if self.phase == "drafted":
            return self.writing.ended
        return self.phase in ("reveal", "lesson") and self._following() >= len(self.deck.questions)

    def _following(self) -> int:
        """The deck's next question: the one that a lesson or a live run has interrupted, or the one after it."""
        return self.place + (self.place < 0 or self.place in self.revealed)

    def _ask(self, number: int) -> None:
        if not 0 <= number < len(self.questions):
            raise DraftscopeError(f"question = {number}: the class has {len(self.questions)}, counted from 0.")
        if number < len(self.deck.questions):
            self.place = number
        if self._judged(number):
            self.phase, self.number, self.hints = "reveal", number, len(self.questions[number].hints)
            return  # it was answered before: shown again, with its answers
        self.phase, self.number, self.hints = "ask", number, 0
        self._new_turn()

    def _draft(self) -> None:
        """Opens a round in which phones propose words."""
        if not self.drafts:
            raise DraftscopeError("No models are loaded here, so nothing can verify a draft; ask questions instead.")
        if self.writing.ended or len(self.writing.rounds) >= ROUNDS_MOST:
            self.writing = Writing()
        self.phase = "draft"
        self._new_turn()

    def _new_turn(self) -> None:
        for phone in self.phones.values():
            phone.changes = 0

    def answered(self) -> int:
        """Phones that answered the question, or proposed words for the round."""
        if self.phase in ("draft", "verify"):
            return len(self.writing.proposals)
        return sum(self.number in phone.answers for phone in self.phones.values())

    def state(self) -> dict[str, Any]:
        """What everybody in the room may see."""
        has_question = self.phase in ("ask", "reveal")
        shown = self.question.shown(self.hints, self.phase == "reveal") if has_question else None
        taken = self.number >= len(self.deck.questions)
        return {
            "code": self.code,
            "title": self.deck.title,
            "phase": self.phase,
            "number": self.number,
            "place": "about a live run" if taken else f"question {self.number + 1} of {len(self.deck.questions)}",
            "question": shown,
            "step": self.lesson.present() if self.phase == "lesson" else None,
            "answered": self.answered(),
            "joined": sum(phone.connected > 0 for phone in self.phones.values()),
            "drafts": self.drafts,
            "endsNext": self.ends_next,
            "writing": self.writing.shown(self.phase == "drafted") if self.phase in DRAFTING else None,
            "tally": self._tally() if self.phase == "reveal" else None,
            "scores": self._scores() if self.phase == "end" else None,
        }

    def state_for(self, token: str) -> dict[str, Any]:
        """The same, with what this phone answered and how often it was right."""
        phone = self.phones.get(token, Phone())
        right, of = self._right(phone)
        proposed = self.writing.proposals.get(token, "")
        mine = {"yours": phone.answers.get(self.number), "proposed": proposed, "right": right, "judged": of}
        return self.state() | mine

    def _tally(self) -> list[int]:
        chosen = Counter(phone.answers.get(self.number) for phone in self.phones.values())
        return [chosen[option] for option in range(len(self.question.options))]

    def _judged(self, number: int) -> bool:
        return number in self.revealed and any(number in phone.answers for phone in self.phones.values())

    def _right(self, phone: Phone) -> tuple[int, int]:
        """How many of this phone's judged answers were right, and how many there are."""
        judged = [n for n in phone.answers if self._judged(n)]
        return sum(phone.answers[n] == self.questions[n].truth for n in judged), len(judged)

    def _scores(self) -> dict[str, float]:
        """Questions right, out of `asked`: the class (by its most frequent answer), its best phone, and chance."""
        judged = [n for n in range(len(self.questions)) if self._judged(n)]
        majority = 0
        for n in judged:
            votes = Counter(phone.answers[n] for phone in self.phones.values() if n in phone.answers)
            majority += votes.most_common(1)[0][0] == self.questions[n].truth
        best = max((self._right(phone)[0] for phone in self.phones.values()), default=0)
        chance = sum(1 / len(self.questions[n].options) for n in judged)
        return {"asked": len(judged), "class": majority, "best": best, "chance": round(chance, 1)}


class Rooms:
    """All rooms of this server: at most `rooms_most`, of at most `phones_most` phones."""

    def __init__(self, rooms_most: int, phones_most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rooms: dict[str, Room] = {}
        self._rooms_most, self._phones_most, self._clock = rooms_most, phones_most, clock

    def open(self, deck: Deck) -> Room:
        """A new room. Raises `DraftscopeError` where there are too many."""
        self._end_idle()
        if not self._rooms_most:
            raise DraftscopeError("This server opens no rooms; start Draftscope on your computer.")
        if len(self._rooms) >= self._rooms_most:
            raise DraftscopeError(
                f"This server has its {self._rooms_most} rooms; end one of them, or start Draftscope on your computer."
            )
        code = next(c for c in iter(_new_code, "") if c not in self._rooms)
        room = Room(code, secrets.token_urlsafe(24), deck, self._phones_most, used=self._clock())
        self._rooms[code] = room
        return room

    def has(self, code: str) -> bool:
        return code in self._rooms

    def find(self, code: str) -> Room:
        """Raises `NoRoomError` for a code that no room has, or no longer."""
        self._end_idle()
        room = self._rooms.get(code.upper()[:CODE_LENGTH])
        if room is None:
            raise NoRoomError(
                "There is no room with this code: it is mistyped, or the room has ended, and nothing of it is kept."
            )
        return room

    def present(self, code: str, key: str) -> Room:
        """The room for its presenter. Raises `NotPresenterError` for another key, `DraftscopeError` for a flood."""
        room = self.find(code)
        if not secrets.compare_digest(room.key.encode(), key.encode()):
            raise NotPresenterError("This page did not open the room, so it cannot turn its pages.")
        room.used = self._clock()
        if len(room.posts) == POSTS_MOST and room.used - room.posts[0] < POSTS_S:
            raise DraftscopeError("This page sends faster than anybody turns pages; wait a few seconds.")
        room.posts.append(room.used)
        return room

    def close(self, room: Room) -> None:
        """Ends a room and forgets it."""
        room.phase = "end"
        self._rooms.pop(room.code, None)

    def _end_idle(self) -> None:
        late = self._clock() - IDLE_S
        for room in [room for room in self._rooms.values() if room.used < late]:
            self.close(room)


def _new_code() -> str:
    return "".join(secrets.choice(LETTERS) for _ in range(CODE_LENGTH))
