"""The engine's end of the pipe to the page, as a test fills and reads it."""

from __future__ import annotations

from ctypes import c_uint64

from draftscope_app.engine.beats import Beats
from draftscope_app.engine.jobs import Command, Message, Quit

UNWATCHED = Beats(c_uint64())


class PipeEnd:
    """Commands to hear; says how long each wait for another might have lasted.

    Once it is waited for, it ends the engine. A wait of no time at all is a look, and nobody looks for ever.
    """

    def __init__(self, *commands: Command) -> None:
        self.commands = [*commands]
        self.said: list[Message] = []
        self.waits: list[tuple[float | None, Message]] = []  # how long, and what it had said last
        self.looks = 0

    def poll(self, patience: float | None = 0.0) -> bool:
        if not self.commands and patience == 0.0:
            self.looks += 1
            assert self.looks < 1000, "it looks again and again for a command, and waits for none"
            return False
        if not self.commands:
            self.waits.append((patience, self.said[-1]))
            self.commands.append(Quit())
        return True

    def recv(self) -> Command:
        return self.commands.pop(0)

    def send(self, message: Message) -> None:
        self.said.append(message)
