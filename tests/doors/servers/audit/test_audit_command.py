"""`draftscope audit` end to end: a small torch model behind a stub that speaks vLLM's dialect, and the weights here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from xml.etree import ElementTree

import pytest
import torch
from scipy.special import log_softmax

from draftscope.decode.engine import DecodingEngine
from draftscope.servers.audit.target import LabTarget
from draftscope.verify.sampling import Sampling
from draftscope_app.cli.main import main
from tests.doors.servers.stubs import Habits, stub
from tests.support.command import Cli, command_line, instead_of_loading

QUICK = ("--target", "tiny", "--length", "4", "--tokens", "336", "--concurrency", "2")  # 60 samples, after 96 tokens
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
        ran = cli(url, *QUICK, "--json", "-")
    assert ran.code == 0, ran.err
    assert not ran.json["different"] and ran.json["sampled"]["samples"] == 60
    assert ran.json["verdict"].startswith("No difference found in 60 samples at T = 1; would have seen")
    assert ran.json["verdict"].endswith("greedy is identical.")
    assert ran.json["server"].endswith("(vllm 0.32.0, stub)")
    assert ran.json["tolerance"] == pytest.approx(5e-4)


def test_another_temperature_is_a_difference(engine: DecodingEngine, cli: Cli) -> None:
    with served(writer(engine, scale=2.5)) as url:
        ran = cli(url, *QUICK, "--tokens", "1696")
    assert ran.code == 1, ran.out + ran.err
    assert ran.out.startswith("Differs from its target") and "greedy is identical" in ran.out
    assert "nats low" in ran.out and "An example: after" in ran.out and "log p - E log p" in ran.out


def test_a_wrong_greedy_token_is_a_difference(engine: DecodingEngine, cli: Cli) -> None:
    with served(writer(engine, greedy_rank=1)) as url:
        ran = cli(url, *QUICK, "--temperature", "0", "--json", "-")
    assert ran.code == 1 and ran.json["sampled"] is None
    assert "Greedy differs: text 1 parts from plain's at token 1" in ran.json["verdict"]


def test_greedy_is_compared_with_another_server(engine: DecodingEngine, cli: Cli) -> None:
    with served(writer(engine)) as right, served(writer(engine, greedy_rank=1)) as wrong:
        same, different = (cli(each, *QUICK, "--temperature", "0", "--plain", right) for each in (right, wrong))
    assert (same.code, different.code) == (0, 1)


def test_without_weights_a_server_is_compared_with_a_plain_one(cli: Cli) -> None:
    quick = ("--length", "4", "--tokens", "896", "--json", "-")
    with stub(Habits()) as plain, stub(Habits()) as same, stub(Habits(step=9)) as other:
        equal, different = (cli(url, "--plain", plain, *quick) for url in (same, other))
        untold = cli(other, "--plain", plain, *quick, "--temperature", "0")
    assert equal.code == 0 and equal.json["sampled"]["pairs"] == 200
    assert equal.json["verdict"].startswith("No difference from the plain server found in 200 pairs")
    assert different.code == 1 and different.json["verdict"].startswith("Differs from the plain server: ")
    assert different.json["example"]["text"].startswith(" w")
    assert "greedy parts from plain in 2 of 2 texts" in different.json["verdict"]
    assert untold.code == 3 and untold.json["verdict"].startswith("Greedy parts from plain in 2 of 2 texts")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--tokens", "90"), "2 prompts take 96 before sampling; give 100"),
        (("--length", "0"), "tokens = 0"),
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


def test_a_nightly_job_gets_its_files(engine: DecodingEngine, cli: Cli, tmp_path: Path) -> None:
    """JUnit, JSON, a summary that is appended, and a baseline whose differences are known."""
    json, junit, summary = tmp_path / "audit.json", tmp_path / "audit.xml", tmp_path / "summary.md"
    files = ("--json", json, "--junit", junit, "--summary", summary)
    summary.write_text("before\n")
    with served(writer(engine, scale=2.5)) as wrong:
        first = cli(wrong, *QUICK, "--tokens", "1696", *files)
        suite = ElementTree.parse(junit).getroot()
        again = cli(wrong, *QUICK, "--tokens", "1696", "--baseline", json, *files)
        other = cli(wrong, *QUICK, "--tokens", "1700", "--temperature", "0.5", "--baseline", json)
    assert (first.code, again.code, other.code) == (1, 0, 2), other.err
    assert "the audit asks for 1,696 tokens at most, 400 samples of 4 among them" in first.err
    assert {case.get("name") for case in suite if case.find("failure") is not None} >= {"temperature", "drafted tokens"}
    assert suite.find("testcase[@name='top-p']/skipped").get("message") == "not tested: it was off; set --top-p"  # type: ignore[union-attr]
    assert ElementTree.parse(junit).getroot().get("failures") == "0"
    assert "The baseline has this difference too: sampled." in again.out and "it has the settings" in other.err
    text = summary.read_text()
    assert text.startswith("before\n## Draftscope audit: Different\n\nDiffers from its target")
    assert "## Draftscope audit: No difference found" in text and "| repetition penalty " in text


def test_reported_log_probabilities_must_be_those_of_the_tokens(engine: DecodingEngine, cli: Cli) -> None:
    """llama.cpp reports 1 for every token of a speculative round (#27972)."""

    def of(prompt: list[int], ids: list[int]) -> list[float]:
        logits = LabTarget(engine).logits(prompt, [ids])[0]
        return list(log_softmax(logits, -1)[range(len(ids)), ids])

    for kind in ("llama.cpp", "vllm", "sglang"):
        for logprobs, code in ((of, 0), (lambda _, ids: [0.0] * len(ids), 1), (None, 0)):
            habits = Habits(kind=kind, write=writer(engine), logprobs=logprobs, burst=3)
            with stub(habits) as url:
                ran = cli(url, *QUICK, "--temperature", "0", "--json", "-")
            assert ran.code == code, ran.out + ran.err
            assert ("its log-probabilities are not those of its tokens" in ran.json["verdict"]) is bool(code)
            assert bool(ran.json["reported"]["untested"]) is (logprobs is None)


def test_too_few_samples_are_undecided(engine: DecodingEngine, cli: Cli) -> None:
    with served(writer(engine)) as url:
        assert cli(url, *QUICK, "--tokens", "100").code == 3


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
