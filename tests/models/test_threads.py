"""The choice of threads and dtype, tested with made-up costs; and giving threads back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import fields
from inspect import signature
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import draftscope
from draftscope import DraftscopeError
from draftscope.base import cores, usable_cores
from draftscope.base.load_settings import LoadSettings
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.load import choose_threads
from draftscope.models.loading import devices
from draftscope.models.loading.devices import fastest_threads, pick_dtype


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def chosen(costs: dict[int, float], most: int) -> tuple[int, list[int]]:
    """The choice if a forward takes `costs[threads]` seconds, and the numbers of threads that were tried."""
    tried: list[int] = []
    now = [0.0]

    def work() -> None:
        tried.append(torch.get_num_threads())
        now[0] += costs[tried[-1]]

    return fastest_threads(work, most, lambda: now[0]), list(dict.fromkeys(tried))


@pytest.mark.parametrize(
    ("costs", "most", "best", "tried"),
    [
        ({1: 3.0}, 1, 1, [1]),
        ({1: 3.0, 2: 2.0}, 2, 2, [1, 2]),
        ({1: 3.0, 2: 3.5, 3: 2.9}, 3, 3, [1, 2, 3]),
        ({1: 3.0, 2: 2.0, 4: 2.9}, 7, 2, [1, 2, 4]),  # far slower than the best, so no more are tried
        ({1: 9.0, 2: 6.0, 4: 4.0, 6: 3.0}, 6, 6, [1, 2, 4, 6]),
    ],
)
def test_the_fastest_number_of_threads_is_chosen(
    costs: dict[int, float], most: int, best: int, tried: list[int]
) -> None:
    assert chosen(costs, most) == (best, tried)
    assert torch.get_num_threads() == best


def test_threads_are_timed_on_the_target(pair: DecodingEngine) -> None:
    with pair.target.counter.widths() as widths:
        assert choose_threads(pair.target, 1).threads == torch.get_num_threads() == 1
    assert set(widths) == {5}


def test_a_choice_is_kept_unless_others_disturbed_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On two cores two threads are faster, but not beside a process that keeps one busy: the number flipped."""
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path))
    busy = 1.0
    monkeypatch.setattr(devices, "OtherCores", lambda: SimpleNamespace(lap=lambda: busy))
    monkeypatch.setattr(cores, "cores", lambda: 2)
    monkeypatch.setattr(devices, "fastest_threads", lambda work, most: 1 if busy else 2)

    def choose() -> devices.ThreadChoice:
        return devices.kept_threads("a model", lambda: None, 2)

    first = choose()
    assert first.threads == 1 and "1 thread, chosen while other processes kept 1.0 of 2 cores busy" in str(first)
    busy = 0.0
    assert choose().threads == 2  # the disturbed choice was not kept
    busy = 1.0
    assert choose() == devices.ThreadChoice(2) and torch.get_num_threads() == 2
    assert devices.kept_threads("another model", lambda: None, 2).threads == 1
    (tmp_path / "draftscope" / "threads.json").write_text('{"a model": "none"')
    assert choose().threads == 1  # damaged: as if nothing was kept


@pytest.mark.parametrize(
    ("half", "single", "best"),
    [
        ([3.0], [4.0], torch.bfloat16),
        ([40.0], [4.0], torch.float32),  # a CPU without bfloat16 instructions
        ([9.0, 3.0], [4.0], torch.bfloat16),  # interrupted once by other work
    ],
)
def test_auto_is_the_fastest_dtype(
    half: list[float], single: list[float], best: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs, now, threads = {torch.bfloat16: half, torch.float32: single}, [0.0], torch.get_num_threads()

    def multiplying(dtype: torch.dtype, rows: int) -> Callable[[], object]:
        left = list(costs[dtype])

        def work() -> None:
            assert torch.get_num_threads() == 1
            now[0] += (left.pop(0) if len(left) > 1 else left[0]) / 100

        return work

    monkeypatch.setattr(devices, "_multiplying", multiplying)
    assert devices.fastest_dtype(clock=lambda: now[0]) == best
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("faster", [torch.bfloat16, torch.float32])
def test_auto_is_measured_on_a_cpu_without_compiled_products(
    faster: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "fastest_dtype", lambda: faster)
    monkeypatch.setattr(devices, "why_not", lambda: "numba is not installed.")
    assert pick_dtype("auto", torch.device("cpu")) == faster
    monkeypatch.setattr(devices, "why_not", lambda: "")
    assert pick_dtype("auto", torch.device("cpu")) == torch.bfloat16
    assert pick_dtype("auto", torch.device("cuda")) == torch.bfloat16
    assert pick_dtype("float16", torch.device("cpu")) == torch.float16


def test_what_others_do_on_cores_that_nobody_here_may_use_disturbs_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a container with two cores of a machine with 64, no choice was ever kept."""
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path))
    monkeypatch.setattr(devices, "OtherCores", lambda: SimpleNamespace(lap=lambda: 30.0))
    monkeypatch.setattr(cores, "cores", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {4, 5}, raising=False)
    assert not devices.kept_threads("a model", lambda: None, 1).disturbed


@pytest.mark.parametrize(
    ("group", "files", "usable"),
    [
        ("0::/", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/", {"cpu.max": "150000 100000\n"}, 1),  # the second thread would wait most of the time
        ("0::/", {"cpu.max": "50000 100000\n"}, 1),
        ("0::/", {"cpu.max": "max 100000\n"}, 8),
        ("0::/", {"cpu.max": "6400000 100000\n"}, 8),
        ("0::/a.slice/b.scope", {"a.slice/cpu.max": "300000 100000", "a.slice/b.scope/cpu.max": "max 100000"}, 3),
        ("4:cpu,cpuacct:/docker/1f", {"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4),
        ("4:cpuset:/docker/1f", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ("4:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ("0::/", {}, 8),
        ("", {"cpu.max": "words"}, 8),
    ],
)
def test_a_container_s_share_counts_its_cores(
    group: str, files: dict[str, str], usable: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "cgroup").write_text(f"12:pids:/elsewhere\n{group}\n" if group else "")
    monkeypatch.setattr(usable_cores, "GROUPS", tmp_path)
    monkeypatch.setattr(usable_cores, "CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert usable_cores.usable_cores() == usable


def test_there_is_at_least_one_core(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(usable_cores, "CGROUP", tmp_path / "none")
    assert 1 <= usable_cores.usable_cores() <= (os.cpu_count() or 1)


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_a_closed_lab_gives_the_process_its_threads_back(pair_folders: tuple[Path, Path]) -> None:
    with draftscope.load(*pair_folders, dtype="float32", threads=1) as engine:
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    torch.set_num_threads(3)
    engine.close()
    assert torch.get_num_threads() == 3  # given back once
    assert engine.decode("ab", max_new_tokens=2).token_ids


@pytest.mark.usefixtures("two_threads")
def test_a_failed_load_leaves_the_threads_as_they_were(pair_folders: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(DraftscopeError, match="no config"):
        draftscope.load(pair_folders[0], tmp_path, threads=1)
    assert torch.get_num_threads() == 2


def test_options_of_load_are_declared_once() -> None:
    """The arguments of `load` are the fields of its settings, and a misspelt argument is refused."""
    arguments = {name: given.default for name, given in signature(draftscope.load).parameters.items()}
    declared = {field.name: field.default for field in fields(LoadSettings)}
    assert arguments == declared | {"progress": False}
    with pytest.raises(DraftscopeError, match="'thread'; did you mean 'threads'"):
        draftscope.load(thread=1)


@pytest.mark.parametrize("threads", [0, -1, 100_000])
def test_threads_that_no_machine_has_are_refused(pair_folders: tuple[Path, Path], threads: int) -> None:
    most = os.cpu_count()
    with pytest.raises(
        DraftscopeError, match=f"threads = {threads}: this machine has {most} cores; choose 1 to {most}"
    ):
        draftscope.load(*pair_folders, dtype="float32", threads=threads)
