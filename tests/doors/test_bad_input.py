"""The commands of tasks: one sentence for every bad input."""

from __future__ import annotations

import pytest

from draftscope.decode.engine import DecodingEngine
from tests.support.command import Cli, command_line, instead_of_loading, refused


@pytest.fixture
def cli(pair: DecodingEngine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """`draftscope`, with models that are there already."""
    instead_of_loading(monkeypatch, pair)
    return command_line(capsys)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["check", "--rule", "fair"], "'lenient' or 'top-k'"),
        (["check", "--drafter", "ngram", "--rule", "typical"], "'ngram' has no choice of rule"),
        (["space"], "Missing command; see 'draftscope space --help'."),
        (["check", "--samples", "many"], "Invalid value for '--samples': 'many' is not a whole number"),
        (["train", "targets"], "'targets' is not one of 'target', 'draft', 'tokenizer', 'all', 'family'"),
        (["check", "--samples", "9"], "choose 500 or more"),
        (["check", "--drafter", "ngrm"], "did you mean 'ngram'?"),
        (["check", "--seed", "-4"], "seed = -4"),
        (["train", "target"], "--corpus DIR"),
        (["servers", "m", "--gamma", "0"], "gamma = 0: should be greater than or equal to 1"),
        (["servers", ""], "MODEL is empty"),
        (["claims", "--from", "no-such-folder"], "--from no-such-folder: there is no such folder"),
        (["train", "target", "--corpus", ".", "--threads", "0"], "threads = 0: should be greater than or equal to 1"),
        (["train-drafter", "--target", "m", "--threads", "-3"], "threads = -3: should be greater"),
        (["forecast", "Llama-3.3-70B", "--form", "k=x"], "The form 'k=x': write 'k=3'"),
        (["forecast", "Llama-3.3-70B", "--engine", "vlm"], "The engine 'vlm' is not known; did you mean vLLM?"),
        (["forecast", "Llama-3.3-70B", "--quant", "f8"], "The format 'f8' is not known"),
        (["forecast", "Llama-3.3-70B", "--drafter", "eagel"], "draftscope: The drafter 'eagel' is not known"),
        (["forecast", "Llama-3.3-70B", "--card", "X9"], "draftscope: The card 'X9' is not known; did you mean"),
        (["forecast", "Llama-3.3-70B", "--price", "inf"], "Invalid value for '--price': 'inf' is not a number"),
        (["advise", "--alpha", ".5,nan", "--c", ".1"], "'.5,nan' is not a list of numbers separated by commas"),
        (["race", "--server", "http://127.0.0.1:1", "x", "--timeout", "nan"], "'nan' is not a number"),
        (["race", "--server", "http://127.0.0.1:1", "x", "--timeout", "-1"], "timeout = -1.0: should be greater"),
        (["forecast", "none.json"], "The file 'none.json' cannot be read (no such file or directory); check the path"),
        (["forecast", "a" * 5000], "aaa...' is not in the table"),
        (["forecast", "--validate", "."], "The file '.' cannot be read (is a directory); check the path."),
        (["forecast", "--figures", "/dev/null"], "cannot be written (file exists); give another folder."),
        (["forecast", "Lama"], "config.json, or a name such as Llama-68M."),
        (["forecast", "Llama-3.3-70B", "--text", "poem"], "draftscope: The kind of text 'poem' is not known"),
        (["forecast", "Llama-3.3-70B", "--traffic", "0"], "0 requests a second: give more than 0."),
        (["race", "--server", "one=", "x"], "'one=' has no address; write NAME=http://HOST:PORT."),
        (["train", "target", "--corpus", "no such", "--minutes", "-1"], "--minutes -1 leaves no time to train"),
        (["train", "target", "--corpus", "no such", "--members", "draft"], "--members goes with 'family'"),
        (["train", "target", "--corpus", ".", "--seed", "-5"], "seed = -5: should be greater than or equal to 0"),
        (["train-drafter", "--target", "m", "--seed", "-5"], "seed = -5: should be greater than or equal to 0"),
        (["train", "target", "--corpus", "no such"], "There is no corpus folder 'no such'"),
        (["forecast", "Llama-3.3-70B", "--tp", "99"], "tp = 99: should be less than or equal to 64"),
        (["forecast", "Llama-3.3-70B", "--tau", "x"], "'x' is not a number"),
        (["forecast", "Llama-3.3-70B", "--within", "5"], "--within is not used without --traffic"),
        (["forecast", "Llama-3.3-70B", "--traffic", "5", "--price", "2"], "--price is not used with --traffic"),
    ],
)
def test_bad_input_is_one_sentence(cli: Cli, monkeypatch: pytest.MonkeyPatch, words: list[str], expected: str) -> None:
    monkeypatch.delenv("DRAFTSCOPE_CORPUS", raising=False)
    assert expected in refused(cli(*words))
