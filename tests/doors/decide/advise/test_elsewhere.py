"""Acceptance from files of other programs; each shape of file once, and files that hold none."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftscope.advise.elsewhere import read
from draftscope.base.errors import DraftscopeError
from tests.support.command import command_line

METRICS = """# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 1000.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 420.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 700.0
vllm:spec_decode_num_accepted_tokens_per_pos_created{engine="0",model_name="m",position="0"} 1.7e+09
"""
LINE = (
    "(APIServer pid=1) INFO 05-21 21:11:56 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: {length}, "
    "Accepted throughput: 3.87 tokens/s, Drafted throughput: 5.72 tokens/s, Accepted: {accepted} tokens, Drafted: "
    "{drafted} tokens, Per-position acceptance rate: {rates}, Avg Draft acceptance rate: {rate}%\n"
)
LOG = (
    "(APIServer pid=1) INFO:     Application startup complete.\n"
    + LINE.format(length="2.20", accepted=120, drafted=200, rates="0.800, 0.400", rate="60.0")
    + LINE.format(length="nan", accepted=0, drafted=0, rates="", rate="nan")
    + LINE.format(length="1.88", accepted=264, drafted=600, rates="0.600, 0.280", rate="44.0")
)
ROUNDS = "".join(
    f'{{"round":{number},"drafted":{drafted},"accepted":{accepted}}}\n'
    for number, (drafted, accepted) in enumerate([(2, 2), (2, 1), (1, 1), (2, 0)])
)


@pytest.mark.parametrize(
    ("text", "expected", "conditional"),
    [
        (LOG, (0.65, 0.31), False),  # 100 drafts and 300
        (METRICS, (0.7, 0.42), False),
        (METRICS.replace('engine="0"', 'engine="1"') + METRICS, (0.7, 0.42), False),
        ('{"spec_decode_per_position_acceptance_rates": [0.7, 0.42], "completed": 10}', (0.7, 0.42), False),
        (ROUNDS, (0.75, 0.5), True),  # of the rounds that drafted a position and kept all before it
        ("[0.7, 0.42]", (0.7, 0.42), False),
        ('{"acceptance": [0.7, 0.6], "conditional": true}', (0.7, 0.6), True),
        (".7,.42\n", (0.7, 0.42), False),
        ("0.7\n0.42\n", (0.7, 0.42), False),
    ],
)
def test_every_kind_of_file(tmp_path: Path, text: str, expected: tuple[float, ...], conditional: bool) -> None:
    file = tmp_path / "file"
    file.write_text(text, encoding="utf-8")
    found = read(file)
    assert found.alpha == pytest.approx(expected) and found.conditional is conditional


@pytest.mark.parametrize(
    "text", ["", "hello", LOG.splitlines()[0], "{}", '{"alpha": ["x"]}', "vllm:spec_decode_num_drafts_total 0\n"]
)
def test_a_file_without_acceptance_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "file"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DraftscopeError, match="holds no acceptance"):
        read(file)
    with pytest.raises(DraftscopeError, match="cannot be read"):
        read(tmp_path / "missing")


def test_the_command_plans_with_a_servers_counters(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "metrics.txt"
    file.write_text(METRICS, encoding="utf-8")
    cli = command_line(capsys, "advise")
    done = cli("--acceptance", file, "--c", ".1")
    same = cli("--alpha", ".7,.42", "--unconditional", "--c", ".1")
    assert done.code == 0 and done.out == same.out and "modelled" in done.out
    both = cli("--acceptance", file, "--alpha", ".5", "--c", ".1")
    assert both.code == 2 and "--alpha and --acceptance" in both.err
