"""Compiled calls get one thread while other programs take the cores."""

from __future__ import annotations

from draftscope.models.native.crowd import FIRST_S, LONGEST_S, Crowd


class Machine:
    """A clock, and how often a second threads lose their cores."""

    def __init__(self) -> None:
        self.now, self.rate = 0.0, 0.0
        self._lost = 0.0
        self.crowd = Crowd(lambda: self.now, lambda: int(self._lost))

    def call(self, threads: int = 2, seconds: float = 0.012) -> int:
        """The threads that a call got."""
        with self.crowd.team(threads) as got:
            self.pass_(seconds)
        return got

    def pass_(self, seconds: float) -> None:
        self.now += seconds
        self._lost += self.rate * seconds

    def calls(self, seconds: float) -> list[int]:
        until, got = self.now + seconds, []
        while self.now < until:
            got.append(self.call())
        return got


def test_an_idle_machine_keeps_all_threads() -> None:
    machine = Machine()
    machine.rate = 8
    assert set(machine.calls(30)) == {2}


def test_a_crowded_machine_computes_on_one_thread_and_seldom_tries_two() -> None:
    machine = Machine()
    machine.rate = 80
    got = machine.calls(60)
    assert got.index(1) <= 5
    assert got.count(2) < 0.02 * len(got)


def test_all_threads_come_back_when_the_others_have_gone() -> None:
    machine = Machine()
    machine.rate = 80
    machine.calls(60)
    machine.rate = 5
    machine.calls(LONGEST_S)
    assert set(machine.calls(5)) == {2}
    machine.rate = 80  # and a new crowd is met with the first, short pause
    machine.calls(0.1)
    machine.rate = 5
    machine.calls(FIRST_S + 0.1)
    assert machine.call() == 2


def test_one_thread_is_never_counted() -> None:
    machine = Machine()
    machine.rate = 1000
    assert all(machine.call(threads=1) == 1 for _ in range(20))
    machine.rate = 0
    assert machine.call() == 2
