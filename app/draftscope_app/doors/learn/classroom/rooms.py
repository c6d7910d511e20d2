"""All rooms of a server: their codes, who may go in, and how many there are. They end by themselves.

Four letters were guessed in three minutes. Now whoever has nothing but a code pays for a wrong one, and one that has
nothing to pay with is told nothing. Guessing at the permitted rate takes 2.9 years on average until it hits one of 20
rooms: (24^6 + 1) / 21 codes, one each 10 s. A phone's token, the ticket of a QR code and a presenter's key have 72 bits
or more, which no rate finds: they always open their room, whatever others do at the same address.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from draftscope.base.errors import DraftscopeError
from draftscope_app.doors.learn.classroom.allowances import Allowance, Rate, network_of
from draftscope_app.doors.learn.classroom.deck import Deck
from draftscope_app.doors.learn.classroom.room import POSTS_MOST, POSTS_S, Room

LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"  # without I and O, which are read as digits
CODE_LENGTH = 6
GUESSES_OF_ADDRESS = Rate(400, 20.0)  # wrong codes: every phone of a class may still have that of a room that is over
GUESSES = Rate(2000, 10.0)
ADDRESS_PART, MIN_OF_ADDRESS = 4, 2  # one address has a fourth of the rooms at most, or two
OPENING_S, OPENING_OF_ADDRESS_S = 5.0, 30.0  # between rooms that are opened, where very many were


class NoRoomError(DraftscopeError):
    """There is no room with that code."""


class NotPresenterError(DraftscopeError):
    """Only who opened a room may turn its pages."""


class LaterError(DraftscopeError):
    """Refused until `wait_s` seconds have passed."""

    def __init__(self, sentence: str, wait_s: float) -> None:
        super().__init__(sentence)
        self.wait_s = max(1, math.ceil(wait_s))


class Rooms:
    """All rooms of this server: at most `rooms_most`, of at most `phones_most` phones."""

    def __init__(self, rooms_most: int, phones_most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rooms: dict[str, Room] = {}
        self._none = Room("", secrets.token_urlsafe(24), Deck(title="", questions=()), 0)  # in place of none
        self._rooms_most, self._phones_most, self._clock = rooms_most, phones_most, clock
        self._of_address = max(MIN_OF_ADDRESS, rooms_most // ADDRESS_PART)
        self._guesses = Allowance(GUESSES_OF_ADDRESS, GUESSES, clock)
        self._openings = Allowance(
            Rate(2 * self._of_address, OPENING_OF_ADDRESS_S), Rate(2 * rooms_most, OPENING_S), clock
        )

    def open(self, deck: Deck, address: str = "") -> Room:
        """A new room for somebody at this address. Raises `DraftscopeError` where there are too many."""
        self._end_idle()
        if not self._rooms_most:
            raise DraftscopeError("This server opens no rooms; start Draftscope on your computer.")
        every, visitor = list(self._rooms.values()), network_of(address)
        self._refuse_full([room for room in every if room.address == visitor], self._of_address, "Your address")
        self._refuse_full(every, self._rooms_most, "This server")
        if wait_s := self._openings.wait_s(address):
            raise LaterError(f"Many rooms were opened a moment ago; try again in {in_words(wait_s)}.", wait_s)
        self._openings.take(address)
        code = next(c for c in iter(_new_code, "") if c not in self._rooms)
        room = Room(code, secrets.token_urlsafe(24), deck, self._phones_most, used=self._clock(), address=visitor)
        self._rooms[code] = room
        return room

    def _refuse_full(self, rooms: Sequence[Room], most: int, whose: str) -> None:
        if len(rooms) < most:
            return
        wait_s = min(room.ends_at for room in rooms) - self._clock()
        raise LaterError(
            f"{whose} has its {most} rooms; end one of them, try again in {in_words(wait_s)}, when the first ends that "
            "nobody uses, or start Draftscope on your computer.",
            wait_s,
        )

    def find(self, code: str, address: str = "", *proofs: str) -> Room:
        """The room with this code, for somebody at this address: at once for one of its class, whose `proofs` are its
        token or its ticket; for others while they may guess.

        Raises `NoRoomError` for a code that no room has, or no longer, and `LaterError` for any code where too many
        were wrong: nothing says then whether this one is.
        """
        room = self._look_up(code)
        if not any(room.admits(proof) for proof in proofs):
            self._guess(room, address)
        return room

    def present(self, code: str, key: str, address: str = "") -> Room:
        """The room for its presenter. Raises `NotPresenterError` for another key, which costs what a wrong code costs,
        and `DraftscopeError` for a flood."""
        room = self._look_up(code)
        if not room.opened_by(key):
            self._guess(room, address)
            self._guesses.take(address)
            raise NotPresenterError("This page did not open the room, so it cannot turn its pages.")
        room.used = self._clock()
        if len(room.posts) == POSTS_MOST and room.used - room.posts[0] < POSTS_S:
            raise DraftscopeError("This page sends faster than anybody turns pages; wait a few seconds.")
        room.posts.append(room.used)
        return room

    def _look_up(self, code: str) -> Room:
        """A room to which no proof belongs where there is none: to try them takes as long."""
        self._end_idle()
        return self._rooms.get(code.upper(), self._none)

    def _guess(self, room: Room, address: str) -> None:
        """Refuses who has shown nothing but a code: an unpaid guess is refused whether there is a room or not."""
        if wait_s := self._guesses.wait_s(address):
            raise LaterError(
                "Too many wrong codes were typed here; scan the QR code on the projector, or wait: a code is taken "
                f"again in {in_words(wait_s)}.",
                wait_s,
            )
        if room is self._none:
            self._guesses.take(address)
            raise NoRoomError(
                "There is no room with this code: it is mistyped, or the room has ended, and nothing of it is kept."
            )

    @contextmanager
    def watching(self, room: Room) -> Iterator[None]:
        """A projector shows this room."""
        room.watched += 1
        try:
            yield
        finally:
            room.watched -= 1
            room.left = self._clock()

    def close(self, room: Room) -> None:
        """Ends a room and forgets it; who looks at it sees its end."""
        room.phase = "end"
        self._rooms.pop(room.code, None)
        room.bell.turn()

    def _end_idle(self) -> None:
        now = self._clock()
        for room in [room for room in self._rooms.values() if room.ends_at < now]:
            self.close(room)


def in_words(seconds: float) -> str:
    """'20 seconds', or '3 minutes': no less than it is."""
    count, word = (math.ceil(seconds / 60), "minute") if seconds > 90 else (max(1, math.ceil(seconds)), "second")
    return f"{count} {word}{'s' * (count != 1)}"


def _new_code() -> str:
    return "".join(secrets.choice(LETTERS) for _ in range(CODE_LENGTH))
