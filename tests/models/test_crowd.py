"""Compiled calls get one thread while other programs take the cores."""

from __future__ import annotations

from draftscope.models.native.crowd import FIRST_S, LONGEST_S, Crowd


class Machine:
    """A clock, and threads that lose their cores so often a second; calls on several threads wait for each of them."""

    def __init__(self) -> None:
        self.now, self.rate, self.waits = 0.0, 0.0, 0.0
        self._lost = 0.0
        self.crowd = Crowd(lambda: self.now, lambda: int(self._lost))

    def call(self, threads: int = 2, seconds: float = 0.012) -> int:
        """The threads that a call got."""
        with self.crowd.team(threads, "work") as got:
            taken = seconds * (1 + self.waits) if got > 1 else 2 * seconds
            self.now += taken
            self._lost += self.rate * taken
        return got

    def calls(self, seconds: float) -> list[int]:
        until, got = self.now + seconds, []
        while self.now < until:
            got.append(self.call())
        return got

    def crowded(self) -> None:
        self.rate, self.waits = 80, 10

    def idle(self) -> None:
        self.rate, self.waits = 50, 0  # a virtual machine loses its cores now and then, and its threads hardly wait


def test_an_idle_machine_keeps_all_threads() -> None:
    machine = Machine()
    machine.idle()
    assert set(machine.calls(30)) == {2}


def test_long_calls_that_lose_their_cores_in_passing_are_no_crowd() -> None:
    """A prompt is read in one long call."""
    machine = Machine()
    machine.idle()
    assert {machine.call(seconds=0.2) for _ in range(100)} == {2}


def test_a_longer_call_alone_is_no_crowd() -> None:
    """A text that grows, or a slower clock of the processor, costs no thread its core."""
    machine = Machine()
    machine.calls(1)
    machine.waits = 3
    assert set(machine.calls(30)) == {2}


def test_a_crowded_machine_computes_on_one_thread_and_seldom_tries_two() -> None:
    machine = Machine()
    machine.calls(1)
    machine.crowded()
    began = machine.now
    got = machine.calls(60)
    assert got.count(2) < 0.03 * len(got)
    machine.now = began
    assert machine.call() == 1


def test_all_threads_come_back_when_the_others_have_gone() -> None:
    machine = Machine()
    machine.calls(1)
    machine.crowded()
    machine.calls(60)
    machine.idle()
    machine.calls(LONGEST_S)
    assert set(machine.calls(5)) == {2}
    machine.crowded()  # and a new crowd is met with the first, short pause
    machine.calls(0.3)
    machine.idle()
    machine.calls(FIRST_S + 0.1)
    assert machine.call() == 2


def test_one_thread_is_never_judged() -> None:
    machine = Machine()
    machine.calls(1)
    machine.crowded()
    assert all(machine.call(threads=1) == 1 for _ in range(20))
    machine.idle()
    assert machine.call() == 2
