"""A published record: rows that can be read and cannot, both halves, and a prior that is learnt from one."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest

from draftscope.forecast.acceptance_priors import tau_of
from draftscope.forecast.backtest import validate
from draftscope.forecast.record import COLUMNS, PublishedRow, in_training_half, read_row
from draftscope_app.cli.main import main
from tests.programs.learn_priors import learn
from tests.programs.learn_priors import main as learn_from

FIRST, SECOND = "github:sgl-project/SpecForge x", "arXiv:2503.01840 Table 1"  # one source of each half
USUAL = {
    "engine": "SGLang", "target_model": "Llama-3.1-8B-Instruct", "target_params_B": "8", "drafter_kind": "EAGLE-3",
    "gamma_or_tree": "k=3", "dataset": "humaneval", "gpu": "H100", "n_gpus_tp": "1", "row_class": "ratio_tau",
    "batch_or_concurrency_or_qps": "bs=1", "tau": "2.5", "speedup_stated": "1.9",
}  # fmt: skip


def row(**changes: str) -> dict[str, str]:
    return dict.fromkeys(COLUMNS, "") | {"id": "R", "source": FIRST, "notes": ""} | USUAL | changes


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, [*COLUMNS, "notes"])
        table.writeheader()
        table.writerows(rows)
    return path


def read(**changes: str) -> PublishedRow:
    result = read_row(row(**changes))
    assert isinstance(result, PublishedRow), result
    return result


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 1.9), ({"speedup_stated": "1.4x slowdown"}, 1 / 1.4),
        ({"speedup_stated": "", "plain_tok_s_or_TPOT_ms": "100", "spec_tok_s_or_TPOT_ms": "150"}, 1.5),
        ({"speedup_stated": "", "perf_unit": "ms", "plain_tok_s_or_TPOT_ms": "9", "spec_tok_s_or_TPOT_ms": "6"}, 1.5),
    ],
)  # fmt: skip
def test_the_speedup_of_a_row(changes: dict[str, str], expected: float) -> None:
    assert read(**changes).speedup == pytest.approx(expected)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 2.5), ({"tau": "2-3"}, 2.5), ({"tau": "", "accept_rate": "0.50-0.70"}, 2.8), ({"tau": ""}, None),
        ({"tau": "0"}, None),
        ({"tau": "", "accept_rate": "0.75", "drafter_kind": "DFlash", "gamma_or_tree": ""}, 4.0),
    ],
)  # fmt: skip
def test_the_tokens_a_round_of_a_row(changes: dict[str, str], expected: float | None) -> None:
    assert read(**changes).tau == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("changes", "cards"),
    [
        ({}, (1, 1)), ({"n_gpus_tp": "4"}, (4, 1)), ({"n_gpus_tp": "PP4"}, (1, 4)), ({"n_gpus_tp": ""}, (1, 1)),
        ({"n_gpus_tp": "", "target_model": "Llama-3.3-70B"}, (4, 1)), ({"n_gpus_tp": "2 (layer split)"}, (1, 2)),
        ({"n_gpus_tp": "2 (tensor split)", "engine": "llama.cpp"}, (2, 1)),
        ({"n_gpus_tp": "2", "engine": "llama.cpp"}, (1, 2)),
    ],
)  # fmt: skip
def test_the_cards_of_a_row(changes: dict[str, str], cards: tuple[int, int]) -> None:
    on = read(**changes).machine
    assert (on.tensor, on.stages) == cards


REFUSED = {
    "no speedup": {"speedup_stated": "0-0"}, "no target": {"target_model": ""}, "no drafter": {"drafter_kind": ""},
    "The card": {"gpu": "X9"}, "a request rate": {"batch_or_concurrency_or_qps": "QPS=1"},
    "confounded": {"row_class": "confounded"}, "The drafter": {"drafter_kind": "x"},
    "The model": {"target_model": "nobody", "target_params_B": ""},
}  # fmt: skip


def test_rows_are_predicted_or_counted_with_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The published speedups are made by the forecast, half of them too large by a factor: the table finds it."""
    assert in_training_half(FIRST) and not in_training_half(SECOND)
    rows = [row(**changes) for changes in REFUSED.values()]
    probe = validate(write(tmp_path / "a.csv", [row()])).checked
    true = next(entry.predicted.middle for entry in probe if not entry.without_tau)
    rows += [row(id=f"A{n}", speedup_stated=f"{true}") for n in range(4)]
    rows += [row(id=f"B{n}", source=SECOND, speedup_stated=f"{1.25 * true}") for n in range(4)]
    path = write(tmp_path / "b.csv", rows)
    assert main(["forecast", "--validate", str(path)]) == 0
    text = capsys.readouterr().out
    assert "8 rows predicted, 8 not." in text
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    assert ["chosen on", "tau", "4", "0.0%", "0%", "100%"] in lines
    assert ["shown on", "tau", "4", "20.0%", "20%", "100%"] in lines
    for reason in REFUSED:
        assert any(line[0].startswith(reason) and line[-1] == "1" for line in lines), reason
    assert main(["forecast", "--validate", str(path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert len(result["rows"]) == 16 and sum(result["not_predicted"].values()) == 8


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "\x00", ",".join(COLUMNS) + "\n"])
def test_a_file_that_is_no_record_gets_a_sentence(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    assert main(["forecast", "--validate", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_prior_is_learnt_from_the_training_half(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(tau=f"{tau_of(alpha, 3)}") for alpha in [0.6] * 50] + [row(tau=f"{tau_of(0.9, 3)}", source=SECOND)]
    learn_from([str(write(tmp_path / "c.csv", rows))])
    result = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert {(entry["kind"], entry["text"]) for entry in result} == {("", ""), ("eagle3", ""), ("eagle3", "code")}
    assert all(float(entry["logit"]) == pytest.approx(math.log(1.5), abs=0.01) for entry in result)
    few = list(learn([("mtp", False, "chat", 0.9), *[("eagle", False, "chat", 0.5)] * 9]))
    mtp = next(float(entry[3]) for entry in few if entry[:3] == ("mtp", "0", ""))
    assert 0 < mtp < math.log(9)  # one row is drawn to all
