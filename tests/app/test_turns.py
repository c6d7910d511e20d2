"""Whose turn it is, with a clock that only the runs move: turns are counted, and no time is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from draftscope_app.engine.jobs import Asker
from draftscope_app.engine.turns import MAX_BEGUN, RACES_FIRST, TURN_S, Turns, turns_before

CALLER, VISITOR, OTHER = Asker("10.0.0.1"), Asker("10.0.0.2", "page"), Asker("10.0.0.2", "another page")


@dataclass(eq=False)
class Fake:
    """A run of so many rounds."""

    asker: Asker
    rounds: int
    measures: bool = False
    ready: bool = True
    begun: bool = False


@dataclass
class Engine:
    """Decodes runs, of which each round takes `round_s`; notes who had each turn."""

    round_s: float = TURN_S / 4
    now: float = 0.0
    runs: list[Fake] = field(default_factory=list)
    decoded: list[Fake] = field(default_factory=list)  # of each round

    def __post_init__(self) -> None:
        self.turns = Turns[Fake](lambda: self.now)

    def add(self, *runs: Fake) -> Fake:
        self.runs += runs
        return runs[-1]

    def round(self) -> Fake | None:
        run = self.turns.next(self.runs)
        if run is None:
            return None
        run.begun, run.rounds, self.now = True, run.rounds - 1, self.now + self.round_s
        self.decoded.append(run)
        if not run.rounds:
            self.runs.remove(run)
        return run

    def until_over(self, run: Fake) -> None:
        while run in self.runs:
            assert self.round() is not None

    def all(self) -> list[Fake]:
        while self.round() is not None:
            pass
        return self.decoded


def turns_of(rounds: Sequence[Fake]) -> list[Fake]:
    """The run of each turn."""
    return [run for run, before in zip(rounds, [None, *rounds], strict=False) if run is not before]


def test_eighty_calls_of_one_client_delay_another_visitor_by_one_turn() -> None:
    """It was 46 s for four tokens: they were decoded one after the other, in order of arrival."""
    engine = Engine()
    engine.add(*(Fake(CALLER, 40) for _ in range(80)))
    engine.round()
    mine = engine.add(Fake(VISITOR, 4))
    engine.until_over(mine)
    before = [run for run in engine.decoded if run is not mine]
    assert len(turns_of(before)) == 1 and engine.now <= 2 * TURN_S + engine.round_s


def test_a_long_run_and_a_short_one_take_turns_of_the_same_length() -> None:
    engine = Engine()
    long, short = engine.add(Fake(CALLER, 100)), engine.add(Fake(VISITOR, 10))
    engine.all()
    assert [run is long for run in engine.decoded[:21]] == [True] * 4 + [False] * 4 + [True] * 4 + [False] * 4 + [
        True
    ] * 4 + [False]
    assert engine.decoded.count(short) == 10 and engine.decoded.count(long) == 100


def test_a_run_that_nobody_waits_for_is_not_interrupted() -> None:
    engine = Engine()
    first, second = engine.add(Fake(CALLER, 30)), engine.add(Fake(CALLER, 30))  # of the same visitor
    assert turns_of(engine.all()) == [first, second]


def test_a_round_longer_than_a_turn_is_a_turn() -> None:
    engine = Engine(round_s=3 * TURN_S)
    one, two = engine.add(Fake(CALLER, 3)), engine.add(Fake(VISITOR, 2))
    assert engine.all() == [one, two, one, two, one]


def test_turns_go_round_among_addresses_and_at_each_among_its_visitors() -> None:
    """A client with many sessions gets no more turns than one with a single page."""
    engine = Engine(round_s=TURN_S)
    engine.add(*(Fake(Asker("10.0.0.9", f"session {number}"), 10) for number in range(20)))
    mine = engine.add(Fake(VISITOR, 5))
    engine.until_over(mine)
    assert engine.decoded.count(mine) == 5 and len(engine.decoded) <= 10
    others = [run for run in engine.decoded if run is not mine]
    assert len({run.asker for run in others}) == len(others)  # its own sessions take turns too


def test_nobody_waits_for_more_turns_than_there_are_visitors() -> None:
    """However many come after him: a newcomer goes behind those who wait, and before the one whose turn it is."""
    engine = Engine(round_s=TURN_S)
    engine.add(Fake(CALLER, 100))
    mine = engine.add(Fake(VISITOR, 5))
    for number in range(40):
        engine.add(Fake(Asker("10.0.0.7", f"new {number}"), 1))
        engine.round()
    places = [place for place, run in enumerate(engine.decoded) if run is mine]
    assert len(places) == 5 and max(b - a for a, b in pairwise(places)) <= 3


def test_races_go_first_and_measurements_get_every_fifth_turn() -> None:
    """They waited for as long as races came."""
    engine = Engine(round_s=TURN_S)
    measuring = engine.add(Fake(VISITOR, 3, measures=True))
    engine.add(*(Fake(Asker(f"10.0.1.{number}"), 20) for number in range(3)))
    engine.until_over(measuring)
    places = [place for place, run in enumerate(engine.decoded) if run is measuring]
    assert places == [RACES_FIRST, 2 * RACES_FIRST + 1, 3 * RACES_FIRST + 2]


def test_a_run_in_steps_holds_up_nobody_and_keeps_its_place() -> None:
    engine = Engine(round_s=TURN_S)
    stepping = engine.add(Fake(VISITOR, 5))
    engine.round()
    stepping.ready = False
    other = engine.add(Fake(CALLER, 3))
    engine.round()
    assert engine.decoded[-1] is other
    stepping.ready = True
    engine.round()
    assert engine.decoded[-1] is stepping
    stepping.ready = False
    assert [engine.round(), engine.round(), engine.round()] == [other, other, None]


def test_only_so_many_runs_keep_caches_in_memory_at_the_same_time() -> None:
    engine = Engine(round_s=TURN_S)
    runs = [Fake(Asker(f"10.0.2.{number}"), 2 + number) for number in range(MAX_BEGUN + 4)]
    engine.add(*runs)
    for _ in range(2 * MAX_BEGUN):
        engine.round()
        assert sum(run.begun for run in engine.runs) <= MAX_BEGUN
    assert len(engine.all()) == sum(2 + number for number in range(MAX_BEGUN + 4))


def test_visitors_who_have_left_are_forgotten() -> None:
    engine = Engine()
    engine.add(*(Fake(Asker(f"10.0.3.{number}", "page"), 1) for number in range(50)))
    engine.all()
    assert not engine.turns._order


def test_the_place_in_the_queue_counts_turns() -> None:
    calls = {f"r{number}": CALLER for number in range(80)}
    askers = calls | {"mine": VISITOR, "next": VISITOR, "other": OTHER}
    assert [turns_before(name, askers) for name in ("r0", "r3", "mine", "next", "other", "gone")] == [0, 3, 1, 2, 2, 0]


def test_a_run_that_has_raced_leaves_the_turn_to_a_race_that_waits() -> None:
    """Its whole solo runs began within its turn, while the race of another visitor waited."""
    engine = Engine()
    first, second = engine.add(Fake(CALLER, 4)), engine.add(Fake(VISITOR, 2))
    assert engine.round() is first
    first.measures = True
    assert [engine.round(), engine.round(), engine.round()] == [second, second, first]
