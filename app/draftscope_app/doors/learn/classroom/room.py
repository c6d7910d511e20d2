"""One room: who is in it, what is asked, who answered what. Kept in memory, written nowhere.

No network and no clock, so that every rule can be tested. Called from one event loop only.
"""

from __future__ import annotations

import secrets
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Literal

from draftscope.base.errors import DraftscopeError
from draftscope_app.doors.learn.classroom.bells import Bell
from draftscope_app.doors.learn.classroom.deck import Deck
from draftscope_app.doors.learn.classroom.drafting import PROPOSAL_MOST, ROUNDS_MOST, Writing, words_in
from draftscope_app.doors.learn.classroom.questions import Question
from draftscope_app.doors.learn.classroom.shown_lessons import LessonStep, Shown

IDLE_S, EMPTY_S = 3600.0, 600.0  # after which a room without its presenter ends; one to which nobody came
TAKEN_MOST = 100  # questions about live runs
CHANGES_MOST = 30  # of one phone's answer to one question
POSTS_MOST, POSTS_S = 100, 10.0  # of a presenter's pages, in so many seconds

Phase = Literal["lobby", "lesson", "ask", "reveal", "draft", "verify", "drafted", "end"]
DRAFTING = ("draft", "verify", "drafted")


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
    address: str = ""  # of who opened it
    ticket: str = field(default_factory=lambda: secrets.token_urlsafe(9))  # in its QR code, beside the letters
    image: str = ""  # the QR code, once it was asked for
    bell: Bell = field(default_factory=Bell)
    watched: int = 0  # open streams of projectors
    left: float = 0.0  # when the last of them was closed
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

    @property
    def ends_at(self) -> float:
        """When it ends if its presenter stays away."""
        if self.phones or self.watched:
            return self.used + IDLE_S
        return max(self.used, self.left) + EMPTY_S

    def opened_by(self, key: str) -> bool:
        return secrets.compare_digest(self.key.encode(), key.encode())

    def admits(self, proof: str) -> bool:
        """Whether nobody but its class can know this: a phone's token, or the ticket of the QR code."""
        return secrets.compare_digest(self.ticket.encode(), proof.encode()) or proof in self.phones

    def join(self, phone: str = "") -> str:
        """A phone's token: its earlier one, or a new one. Raises `DraftscopeError` where the room is full."""
        if phone in self.phones:
            return phone
        if len(self.phones) >= self.phones_most:
            self._forget_one()
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
        """A phone opened its stream. Raises `DraftscopeError` for one that was forgotten."""
        self.find_phone(token).connected += 1

    def leave(self, token: str) -> None:
        """A phone closed it; its answers stay, so it may come back."""
        if token in self.phones:
            self.phones[token].connected -= 1

    def _forget_one(self) -> None:
        """Of the phones that are not here and said nothing the first, so that nobody can fill a room with none."""
        for token, phone in self.phones.items():
            if not phone.connected and not phone.answers and token not in self.writing.proposals:
                del self.phones[token]
                return

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
        if words := words_in(text):
            self.writing.proposals[token] = words
        else:
            self.writing.proposals.pop(token, None)

    def show(self, step: LessonStep) -> None:
        """The presenter is in a lesson, and phones follow. A question that is open stays unanswered until later."""
        self._refuse_change()
        self.lesson.show(step)
        self.phase = "lesson"

    def take(self, question: Question) -> None:
        """Asks about a live run; the same question again is the one from before. Raises `DraftscopeError` after very
        many."""
        self._refuse_change()
        first = len(self.deck.questions)
        if question not in self.questions[first:]:
            if len(self.questions) - first >= TAKEN_MOST:
                raise DraftscopeError(
                    f"This class was asked {TAKEN_MOST} questions about live runs; open another room."
                )
            self.questions.append(question)
        self._ask(self.questions.index(question, first))

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

    def verified(self, worked: bool) -> None:
        """The target has verified the round; where it could not, the round is open again with its proposals."""
        if self.phase == "verify":  # the room may have ended meanwhile
            self.phase = "drafted" if worked else "draft"

    def voters(self) -> set[str]:
        """The phones that answered the question, or proposed words for the round."""
        if self.phase in DRAFTING:
            return set(self.writing.proposals)
        return {token for token, phone in self.phones.items() if self.number in phone.answers and self._has_question}

    @property
    def _has_question(self) -> bool:
        return self.phase in ("ask", "reveal")

    def state(self) -> dict[str, Any]:
        """What everybody in the room may see."""
        shown = self.question.shown(self.hints, self.phase == "reveal") if self._has_question else None
        voters = self.voters()
        taken = self.number >= len(self.deck.questions)
        return {
            "code": self.code,
            "title": self.deck.title,
            "phase": self.phase,
            "number": self.number,
            "place": "about a live run" if taken else f"question {self.number + 1} of {len(self.deck.questions)}",
            "question": shown,
            "step": self.lesson.present() if self.phase == "lesson" else None,
            "answered": len(voters),
            "joined": sum(phone.connected > 0 or token in voters for token, phone in self.phones.items()),
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
