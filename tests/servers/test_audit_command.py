"""`draftscope audit` end to end: a small torch model behind a stub that speaks vLLM's dialect, and the weights here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import pytest
import torch

from draftscope.decode.engine import DecodingEngine
from draftscope.verify.sampling import Sampling
from draftscope_app.cli.main import main
from tests.servers.stubs import Habits, stub
from tests.support.command import Cli, command_line, instead_of_loading

QUICK = ("--target", "tiny", "--tokens", "4", "--samples", "60", "--concurrency", "2")
ONE_AT_A_TIME = Lock()

Write = Callable[[list[int], int, float, int | None], list[int]]


def writer(engine: DecodingEngine, scale: float = 1.0, greedy_rank: int = 0) -> Write:
    """Samples from the target at `scale` times the temperature; greedy takes the best token, or a later one."""

    @torch.inference_mode()
    def write(prompt: list[int], count: int, temperature: float, seed: int | None) -> list[int]:
        dice, ids = torch.Generator().manual_seed(seed or 0), list(prompt)
        for _ in range(count):
            with ONE_AT_A_TIME:
                logits = engine.target.network(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
            if temperature:
                p = Sampling(temperature * scale).distribution(logits)
                ids.append(int(torch.multinomial(p, 1, generator=dice)))
            else:
                ids.append(int(logits.argsort(descending=True)[greedy_rank]))
        return ids[len(prompt) :]

    return write


@contextmanager
def served(write: Write) -> Iterator[str]:
    with stub(Habits(write=write)) as url:
        yield url


@pytest.fixture
def engine(tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> DecodingEngine:
    return instead_of_loading(monkeypatch, tiny)


@pytest.fixture
def cli(engine: DecodingEngine, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """`draftscope audit` on two short prompts, unless others are given."""
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("abcab\nedcbaabc\n")
    return command_line(capsys, "audit", "--prompts", prompts)


def test_the_same_weights_are_not_flagged(engine: DecodingEngine, cli: Cli) -> None:
    with served(writer(engine)) as url:
        ran = cli(url, *QUICK, "--json")
    assert ran.code == 0, ran.err
    assert not ran.json["different"] and ran.json["sampled"]["samples"] == 60
    assert ran.json["verdict"].startswith("No difference found in 60 samples at T = 1; would have seen")
    assert ran.json["verdict"].endswith("greedy is identical.")
    assert ran.json["server"].endswith("(vllm 0.32.0, stub)")
    assert ran.json["tolerance"] == pytest.approx(5e-4)


def test_another_temperature_is_a_difference(engine: DecodingEngine, cli: Cli) -> None:
    with served(writer(engine, scale=2.5)) as url:
        ran = cli(url, *QUICK, "--samples", "400")
    assert ran.code == 1, ran.out + ran.err
    assert ran.out.startswith("Differs from its target") and "greedy is identical" in ran.out
    assert "nats low" in ran.out and "An example: after" in ran.out and "log p - E log p" in ran.out


def test_a_wrong_greedy_token_is_a_difference(engine: DecodingEngine, cli: Cli) -> None:
    with served(writer(engine, greedy_rank=1)) as url:
        ran = cli(url, *QUICK, "--temperature", "0", "--json")
    assert ran.code == 1 and ran.json["sampled"] is None
    assert "Greedy differs: text 1 parts from plain's at token 1" in ran.json["verdict"]


def test_greedy_is_compared_with_another_server(engine: DecodingEngine, cli: Cli) -> None:
    with served(writer(engine)) as right, served(writer(engine, greedy_rank=1)) as wrong:
        same, different = (cli(each, *QUICK, "--temperature", "0", "--plain", right) for each in (right, wrong))
    assert (same.code, different.code) == (0, 1)


def test_without_weights_a_server_is_compared_with_a_plain_one(cli: Cli) -> None:
    quick = ("--tokens", "4", "--samples", "200", "--json")
    with stub(Habits()) as plain, stub(Habits()) as same, stub(Habits(step=9)) as other:
        equal, different = (cli(url, "--plain", plain, *quick) for url in (same, other))
    assert equal.code == 0 and equal.json["sampled"]["pairs"] == 200
    assert equal.json["verdict"].startswith("No difference from the plain server found in 200 pairs")
    assert different.code == 1 and different.json["verdict"].startswith("Differs from the plain server: ")
    assert different.json["example"]["text"].startswith(" w")
    assert "greedy parts from plain in 2 of 2 texts" in different.json["verdict"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--samples", "0"), "samples = 0"),
        (("--temperature", "-1"), "temperature"),
        (("--top-p", "0"), "top_p"),
        (("--prompts", "/nowhere/prompts.txt"), "cannot be read"),
        (("--false-alarm", "2"), "false alarm = 2"),
        (("--model", "gpt"), "does not serve"),
    ],
)
def test_wrong_arguments_end_with_2(engine: DecodingEngine, cli: Cli, arguments: tuple[str, ...], words: str) -> None:
    with served(writer(engine)) as url:
        ran = cli(url, *QUICK, *arguments)
    assert ran.code == 2 and words in ran.err


def test_a_server_that_returns_no_token_ids_is_refused_in_a_sentence(engine: DecodingEngine, cli: Cli) -> None:
    """transformers serve: no flag makes it return them, so none is advised."""
    with stub(Habits(kind="transformers")) as url:
        ran = cli(url, *QUICK)
    assert ran.code == 2
    assert "is transformers serve, which does not return token ids" in ran.err and ran.err.count("\n") == 1


def helped(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main([command, "--help"]) == 0
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_options_say_what_an_audit_does_with_them(capsys: pytest.CaptureFixture[str]) -> None:
    shown = helped("audit", capsys)
    assert "the weights that the server should run" in shown and "default: the embedded pair" not in shown
    assert "--stop" not in shown and "0 is greedy [0 to 10; default: 1]" in shown
    assert "--stop" in helped("race", capsys)


def test_what_is_no_server_or_has_no_target_ends_with_2(engine: DecodingEngine, cli: Cli, tmp_path: Path) -> None:
    assert cli("http://127.0.0.1:9", *QUICK).code == 2
    with stub(Habits(kind="vllm")) as url:
        ran = cli(url)
        assert ran.code == 2 and "--target" in ran.err
    with stub(Habits(kind="vllm", wrong="closes")) as url:
        assert cli(url, *QUICK).code == 2
    with stub(Habits(kind="vllm")) as url:  # writes tokens up to 62, and the target has five
        ran = cli(url, *QUICK)
        assert ran.code == 2 and "another model" in ran.err
