"""The benchmark and the GPU suite run, say what they measured, and never assert a time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from draftscope import gpu
from draftscope.bench import bench, save
from draftscope.lab import Lab


def test_every_system_writes_the_same_number_of_tokens_and_greedy_ones_the_same(pair: Lab, tmp_path: Path) -> None:
    rows = bench(pair, {"story": "Once"}, (0.0,), tokens=8, repeats=2)
    assert {row.system for row in rows} >= {"plain", "draft, gamma 4", "n-gram", "transformers-assisted"}
    assert all(len(row.seconds) == 2 for row in rows)
    assert next(row for row in rows if row.system == "plain").ratio_to_plain == {"median": 1, "low": 1, "high": 1}
    text = save(tmp_path, pair, rows)
    assert "| transformers-generate |" in text
    assert len(json.loads((tmp_path / "bench.json").read_text())["rows"]) == len(rows)


def test_the_gpu_suite_runs_on_a_cpu_at_small_size(pair_folders: tuple[Path, Path], tmp_path: Path) -> None:
    target, draft = map(str, pair_folders)
    assert gpu.run(tmp_path, "cpu", samples=500, tokens=4, repeats=1, pair=(target, draft)) == 0
    findings = json.loads((tmp_path / "exactness.json").read_text())["findings"]
    assert {finding["drafter"] for finding in findings} >= {"plain", "draft", "sampled-tree", "topk-tree", "ngram"}


def test_without_cuda_the_suite_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("sys.argv", ["gpu"])
    assert gpu.main() == 2
    assert "this machine has no CUDA; choose cpu or auto" in capsys.readouterr().err
