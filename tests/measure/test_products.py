"""The benchmark of products: every way is timed on the same weights, and the tables follow from the times."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from draftscope.measure import products

SHAPES = ((2, 48, 64), (1, 80, 32))


def test_every_way_multiplies_the_same_weights() -> None:
    ways, size = products.ways(SHAPES)
    assert size == 2 * (2 * 48 * 64 + 80 * 32)
    rows = {64: torch.randn(3, 64).bfloat16(), 32: torch.randn(3, 32).bfloat16()}
    copied = ways.pop(products.COPY)(rows)
    assert isinstance(copied, torch.Tensor) and copied.nbytes == size
    with torch.inference_mode():
        results = [way(rows) for way in ways.values()]
    assert len(results) >= 2
    for result in results[1:]:
        for actual, expected in zip(result, results[0], strict=True):
            torch.testing.assert_close(actual, expected, atol=0.05, rtol=0.02)


def test_speeds_and_v_follow_from_the_times() -> None:
    seconds = {("copy", 1): 1.0, ("copy", 4): 1.0, ("F.linear", 1): 2.0, ("F.linear", 4): 3.0}
    lines = products.table(seconds, 6_000_000_000).splitlines()
    cells = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]
    assert ["copy, GB/s", "6.0", "6.0"] in cells
    assert ["F.linear, GB/s", "3.0", "2.0"] in cells and ["F.linear, v", "1.00", "1.50"] in cells


def test_a_report_has_a_table_for_each_model_and_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(products, "MODELS", {"small": SHAPES})
    saved = tmp_path / "products.md"
    arguments = ["--models", "small", "--threads", "1", "2", "--rows", "1", "5", "--times", "1", "--save", str(saved)]
    monkeypatch.setattr("sys.argv", ["products", *arguments])
    before = torch.get_num_threads()
    products.main()
    assert torch.get_num_threads() == before
    assert capsys.readouterr().out.rstrip() == saved.read_text().rstrip()
    assert saved.read_text().count("oneDNN, packed, GB/s") == 2
