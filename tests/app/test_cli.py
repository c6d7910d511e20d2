"""The command line: exit codes, one sentence for every bad input, and the JSON that others read."""

from __future__ import annotations

import errno
import io
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

import draftscope
from draftscope.base.errors import DraftscopeError
from draftscope.base.load_settings import LoadSettings
from draftscope.decode import calibration
from draftscope.decode.engine import DecodingEngine
from draftscope.trace import files, tables
from draftscope.trace.events import SCHEMA_VERSION
from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.commands import decode
from draftscope_app.cli.extra import PACKAGES
from draftscope_app.cli.main import COMMANDS
from draftscope_app.reports import run_report
from draftscope_app.serve import server
from tests.support.command import Cli, Ran, command_line, instead_of_loading, refused

METRICS = {
    "mean_acceptance_length",
    "draft_acceptance_rate",
    "acceptance_rate_per_position",
    "conditional_acceptance_per_position",
    "num_drafts",
    "num_draft_tokens",
    "num_accepted_tokens",
    "tokens_per_s",
    "ttft_ms",
    "tpot_ms",
    "itl_ms",
    "icl_ms",
}
LOAD = LoadSettings(
    "here", "there", "float32", "cpu", 1, device_map="auto", revision="v1", draft_revision="v2",
    trust_remote_code=True, allow_pickle=True,
    emulate="8b+1b", heads=("mtp:elsewhere", "eagle3-tree:over-there"),
)  # fmt: skip
LOADING = (
    *("--target", "here", "--draft", "there", "--dtype", "float32", "--device", "cpu", "--threads", "1"),
    *("--device-map", "auto", "--revision", "v1", "--draft-revision", "v2", "--trust-remote-code", "--allow-pickle"),
    *("--emulate", "8b+1b", "--head", "mtp:elsewhere", "--drafter", "eagle3-tree:over-there"),
)
SAMPLED = ("--temperature", "1", "--seed", "3", "--max-new-tokens", "24")


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """`draftscope`."""
    return command_line(capsys)


@pytest.fixture
def loaded(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> DecodingEngine:
    return instead_of_loading(monkeypatch, pair)


# decode


def test_decode_prints_one_json_object(cli: Cli, loaded: DecodingEngine) -> None:
    ran = cli("decode", "hello", *SAMPLED, "--drafter", "draft", "--shape", "2,2", "--gamma", "3", "--json")
    assert ran.code == 0
    told = ran.json
    assert set(told) == {"text", "token_ids", "drafter", "exact", "synthetic", "settings", "target_forwards", "metrics"}
    assert set(told["metrics"]) >= METRICS
    assert set(told["metrics"]["itl_ms"]) == set(told["metrics"]["icl_ms"]) == {"p50", "p95", "p99"}
    run = loaded.decode("hello", "draft", temperature=1, seed=3, max_new_tokens=24, gamma=3)
    assert (told["text"], told["token_ids"]) == (run.text, run.token_ids)
    assert told["target_forwards"] == len(run.round_events)
    assert (told["drafter"], told["exact"]) == ("draft", True)
    assert told["settings"]["shape"] == [2, 2]
    assert len(ran.out.splitlines()) == 1


def test_decode_streams_the_text_and_sums_up_on_stderr(cli: Cli, loaded: DecodingEngine) -> None:
    ran = cli("decode", "hello", *SAMPLED, "--rule", "token")
    run = loaded.decode("hello", temperature=1, seed=3, max_new_tokens=24, rule="token")
    assert ran.code == 0
    assert ran.out == run.text + "\n"
    assert ran.err.startswith(
        f"24 tokens, {len(run.round_events)} target forwards, {24 / len(run.round_events):.2f} tokens a round,"
    )
    assert ran.err.endswith("tokens/s\n")


def test_decode_counts_the_tokens_of_a_long_prompt_while_it_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []

    class Bar:
        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def add_task(self, name: str, total: int | None) -> int:
            shown.append(name)
            return 0

        def update(self, task: int, total: int | None = None, completed: int | None = None, **_: str) -> None:
            shown.append(total or completed)

        def stop(self) -> None:
            shown.append("gone")

    monkeypatch.setattr(terminal, "progress", lambda _: Bar())
    read = [SimpleNamespace(kind="prefill", tokens=tokens) for tokens in (256, 512, 599)]
    written = SimpleNamespace(kind="round", emitted=[7, 8], text_delta="ab")
    with decode._shown(None) as show:
        for event in (SimpleNamespace(kind="run_start", prompt_tokens=600), *read, written):
            show(event)  # type: ignore[arg-type]
    assert shown == ["Reading the prompt", 599, 256, 512, 599, "gone", 2]


@pytest.mark.usefixtures("loaded")
def test_one_of_a_thing_is_not_many(cli: Cli) -> None:
    said = cli("decode", "hello", "--max-new-tokens", "1").err
    assert said.startswith("1 token, 1 target forward, 1.00 tokens a round")


@pytest.mark.usefixtures("loaded")
def test_every_setting_reaches_the_run(cli: Cli) -> None:
    given: dict[str, Any] = {
        "drafter": "sampled-tree",
        "gamma": 2,
        "draft_length": "cost",
        "confidence": 0.3,
        "shape": [2, 1],
        "tree_nodes": 12,
        "tree_depth": 3,
        "tree_width": 2,
        "ngram": 2,
        "window": 3,
        "inner": "suffix",
        "exit_layer": 1,
        "oracle_alpha": 0.7,
        "typed": "abc",
        "rule": "token",
        "lenience": 0.7,
        "agreement": 2,
        "prefetch": 6,
        "policy": "exp3",
        "arms": ["draft:3", "sampled-tree:2x1"],
        "temperature": 0.5,
        "top_k": 9,
        "top_p": 0.9,
        "min_p": 0.01,
        "seed": 5,
        "max_new_tokens": 4,
        "stop": ["x", "yz"],
    }
    words = []
    for name, value in given.items():
        for one in value if name == "stop" else [value]:
            shown = ",".join(map(str, one)) if isinstance(one, list) else str(one)
            words += [f"--{name.replace('_', '-')}", shown]
    of_chats = {"raw": False, "system": "", "thinking": False}  # these need a model with a chat template
    assert cli("decode", "hello", "--json", *words).json["settings"] == given | of_chats


@pytest.mark.usefixtures("loaded")
def test_a_dash_reads_standard_input(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    direct = cli("decode", "hello\nyou", *SAMPLED)
    monkeypatch.setattr(sys, "stdin", io.StringIO("hello\nyou"))
    assert cli("decode", "-", *SAMPLED).out == direct.out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe"), "utf-8"))
    assert "not valid UTF-8" in refused(cli("decode", "-", *SAMPLED))


def test_what_is_measured_before_the_first_token_is_said_in_a_pipe_too(
    cli: Cli, pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path))
    monkeypatch.setattr(calibration, "REPEATS", 1)
    monkeypatch.setattr(calibration, "TOGETHER", {1: 6})
    engine = DecodingEngine(pair.target, pair.draft, pair.tokenizer, pair.heads)
    instead_of_loading(monkeypatch, engine)
    words = ("decode", "hello", *SAMPLED, "--drafter", "hybrid")
    said = [line for line in cli(*words).err.splitlines() if line.startswith("draftscope: Measuring: ")]
    costs = "draftscope: Measuring: what a round costs here, once for this machine"
    assert len(said) > 3 and all(line.startswith(costs) for line in said)
    assert any(re.search(r": rounds of ngram, \d+%", line) for line in said)
    assert "Measuring" not in cli(*words).err


def test_a_run_from_folders_with_models_named(cli: Cli, pair: DecodingEngine, pair_folders: tuple[Path, Path]) -> None:
    target, draft = pair_folders
    models = ("--target", target, "--draft", draft, "--dtype", "float32", "--device", "cpu", "--threads", "1")
    told = cli("decode", "hello", *SAMPLED, *models, "--json").json
    assert told["token_ids"] == pair.decode("hello", temperature=1, seed=3, max_new_tokens=24).token_ids


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["decode", ""], "The prompt is empty"),
        (["decode", "x" * 600], "context holds 512"),
        (["decode", "\udcff"], "prompt contains \\udcff, which is half of a character"),
        (["decode", "a", "--drafter", "drft"], "did you mean 'draft'?"),
        (["decode", "a", "--gamma", "0"], "gamma = 0: should be greater than or equal to 1"),
        (["decode", "a", "--gamma", "four"], "Invalid value for '--gamma': 'four' is not a whole number"),
        (["decode", "a", "--shape", "3,,1"], "'3,,1' is not a list of whole numbers separated by commas"),
        (["decode", "a", "--shape", "9,9,9"], "keep a tree to 256"),
        (["decode", "a", "--temperature", "-1"], "temperature = -1.0: should be greater than or equal to 0"),
        (["decode", "a", "--rule", "fair"], "'lenient' or 'top-k'"),
        (["decode", "a", "--stop", ""], "empty string"),
        (["decode", "a", "--max-new-tokens", "4", "--trace", "/dev/null/x"], "'/dev/null/x' cannot be written"),
        (["decode"], "Missing argument 'PROMPT'; see 'draftscope decode --help'."),
        (["decode", "a", "b"], "unexpected extra argument"),
        (["decode", "a", "--bogus"], "No such option: --bogus; see 'draftscope decode --help'."),
        (["decode", "a", "--temprature", "1"], "No such option: --temprature; did you mean --temperature?"),
        (["decode", "a", "--gamma"], "Option '--gamma' requires an argument"),
        (["decode", "a", "--threads", "two"], "Invalid value for '--threads': 'two' is not a whole number"),
        (["--bogus"], "No such option: --bogus; see 'draftscope --help'."),
        (["decod", "a"], "No such command 'decod'; did you mean 'decode'?"),
        (["cook"], "No such command 'cook'; see 'draftscope --help'."),
        ([], "Missing command; see 'draftscope --help'."),
        (["replay", "no-such-file"], "'no-such-file' cannot be read"),
        (["serve", "--port", "70000"], "70000"),
        (["serve", "--drafter", "mine.py:INFO"], "no drafter from a file; install that of 'mine.py:INFO'"),
        (["serve", "--host", "192.0.2.1"], "host = '192.0.2.1' is not an address of this machine; try 127.0.0.1."),
        (["serve", "--share"], "No such option: --share; see 'draftscope serve --help'."),
        (["serve", "--no-brwser"], "No such option: --no-brwser; did you mean --no-browser?"),
    ],
)
def test_bad_input_is_one_sentence(cli: Cli, words: list[str], expected: str) -> None:
    assert expected in refused(cli(*words))


def test_a_full_disk_is_one_sentence(cli: Cli, monkeypatch: pytest.MonkeyPatch, recorded: Path) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("draftscope_app.cli.commands.replay.print", full, raising=False)
    assert "no space is left for what is written; free some" in refused(cli("replay", recorded))


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes")])
def test_memory_that_runs_out_is_one_sentence(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, recorded: Path, error: Exception
) -> None:
    def full(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("draftscope_app.cli.commands.replay.print", full, raising=False)
    assert "the memory ran out; shorten the prompt, lower --max-new-tokens" in refused(cli("replay", recorded))


def test_decode_takes_the_drafter_that_can_run(cli: Cli, pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target without a draft model drafts n-grams, as in Python."""
    instead_of_loading(monkeypatch, DecodingEngine(pair.target, None, pair.tokenizer))
    assert cli("decode", "hello", "--max-new-tokens", "4", "--json").json["drafter"] == "ngram"


@pytest.mark.usefixtures("loaded")
def test_decode_says_which_options_the_drafter_does_not_read(cli: Cli) -> None:
    ran = cli("decode", "hello", "--max-new-tokens", "4", "--drafter", "ngram", "--rule", "token", "--gamma", "2")
    assert ran.code == 0 and "draftscope: 'ngram' does not read --rule." in ran.err
    assert "does not read" not in cli("decode", "hello", "--max-new-tokens", "4", "--rule", "token").err


def test_an_empty_prompt_loads_no_model(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_options, "load", lambda _: pytest.fail("loaded"))
    assert "The prompt is empty" in refused(cli("decode", ""))


def _missing(folder: Path) -> None:
    shutil.rmtree(folder)


def _pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _cut_short(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])


def _no_config(folder: Path) -> None:
    (folder / "config.json").unlink()


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (_missing, "There is no model folder"),
        (_pickle, "a pickle, which can run code"),
        (_cut_short, "are damaged"),
        (_no_config, "has no config.json"),
    ],
)
def test_a_checkpoint_that_cannot_be_read_is_one_sentence(
    cli: Cli, pair_folders: tuple[Path, Path], tmp_path: Path, damage: Callable[[Path], None], expected: str
) -> None:
    folder = tmp_path / "target"
    shutil.copytree(pair_folders[0], folder)
    damage(folder)
    assert expected in refused(cli("decode", "hello", "--target", folder))


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["--device", "cuda"], "no CUDA"), (["--device", "moon"], "no device 'moon'"), (["--dtype", "int3"], "'int3'")],
)
def test_a_machine_that_cannot_is_one_sentence(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, words: list[str], expected: str
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert expected in refused(cli("decode", "hello", *words))


@pytest.mark.usefixtures("loaded")
def test_ctrl_c_ends_the_run_within_a_round_and_its_trace_whole(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cut.jsonl"

    def interrupted(text: str) -> str:
        signal.raise_signal(signal.SIGINT)
        return text

    monkeypatch.setattr(run_report, "printable", interrupted)
    before = signal.getsignal(signal.SIGINT)
    ran = cli("decode", "hello", "--max-new-tokens", "200", "--trace", file)
    assert (ran.code, ran.err) == (130, "draftscope: interrupted.\n")
    *_, last_round, end = files.read(file).events
    assert last_round.kind == "round"
    assert end.kind == "run_end"
    assert (end.reason, end.target_forwards) == ("cancelled", 1)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("name", ["full", "full.jsonl.gz"])
def test_a_full_disk_loses_the_trace_and_nothing_else(
    cli: Cli, loaded: DecodingEngine, tmp_path: Path, name: str
) -> None:
    """The text, the summary and the sentence were lost with it."""
    (tmp_path / name).symlink_to("/dev/full")
    whole = cli("decode", "hello", *SAMPLED)
    ran = cli("decode", "hello", *SAMPLED, "--trace", tmp_path / name)
    assert (ran.code, ran.out) == (2, whole.out) and whole.out.strip()
    *summary, sentence = ran.err.splitlines()
    assert summary and "tokens" in summary[0]
    assert (
        sentence == f"draftscope: The trace '{tmp_path / name}' cannot be written (No space left on device); "
        "choose another file."
    )


def test_a_run_that_fails_says_so_without_a_stack_trace(
    cli: Cli, loaded: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("out of\nmemory")

    monkeypatch.setattr(loaded, "opening", fail)
    ran = cli("decode", "hello")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "draftscope: the run failed (RuntimeError: out of memory); DRAFTSCOPE_DEBUG=1 shows where.\n"
    monkeypatch.setenv("DRAFTSCOPE_DEBUG", "1")
    assert "Traceback" in cli("decode", "hello").err


def test_text_for_a_terminal_cannot_steer_it(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = "a\x1b[2Jb\x9b\tc\n"
    assert run_report.printable(hostile) == hostile
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run_report.printable(hostile) == r"a\x1b[2Jb\x9b" "\tc\n"


# replay


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("name", ["again.jsonl", "again.jsonl.gz"])
def test_replay_tells_the_run_that_was_recorded(cli: Cli, tmp_path: Path, name: str) -> None:
    decoded = cli("decode", "hello", *SAMPLED, "--trace", tmp_path / name, "--json").json
    replayed = cli("replay", tmp_path / name, "--json").json
    assert replayed["warning"] == ""
    (lane,) = replayed["lanes"]
    assert {key: lane[key] for key in decoded} == decoded
    assert lane["reason"] == "length"


def test_replay_for_people_has_text_summary_and_metrics(cli: Cli, pair: DecodingEngine, recorded: Path) -> None:
    ran = cli("replay", recorded)
    text = pair.decode("hello", temperature=1, seed=3, max_new_tokens=24).text
    assert (ran.code, ran.err) == (0, "")
    assert f"hello{text}\n\n24 tokens, " in ran.out
    for words in ("byte-target + byte-draft", "recorded 20", "ended by length", "accepted / ", "TTFT, TPOT"):
        assert words in ran.out


def test_a_truncated_trace_shows_what_is_whole_and_warns(cli: Cli, recorded: Path) -> None:
    recorded.write_bytes(recorded.read_bytes()[:-400])
    lost = cli("replay", recorded, "--json")
    assert lost.code == 0
    assert "breaks off after" in lost.err
    (lane,) = lost.json["lanes"]
    assert lane["reason"] is None
    assert lane["target_forwards"] == lane["metrics"]["target_forwards"] > 0
    assert len(lane["token_ids"]) == lane["metrics"]["tokens"]
    assert "breaks off" in cli("replay", recorded).out


def test_foreign_files_are_refused_in_a_sentence(cli: Cli, recorded: Path, tmp_path: Path) -> None:
    lines = recorded.read_text(encoding="utf-8").splitlines()
    foreign = {
        "prose": "Once upon a time\n",
        "json": '{"kind": "something"}\n',
        "empty": "",
        "headless": lines[2] + "\n",
        "stranger": lines[0] + "\n" + lines[1].replace('"lane":"run"', '"lane":"other"') + "\n",
        "later version": lines[0].replace(f'"schema_version":{SCHEMA_VERSION}', '"schema_version":99') + "\n",
    }
    for name, content in foreign.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        refused(cli("replay", tmp_path / name))
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    refused(cli("replay", tmp_path / "binary"))


# export


@pytest.mark.parametrize("what", tables.TABLES)
def test_export_writes_the_table_of_a_trace(cli: Cli, recorded: Path, tmp_path: Path, what: str) -> None:
    table = tables.frame(files.read(recorded).events, what)
    shown = cli("export", recorded, "--what", what)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == table.to_csv(index=False, lineterminator="\n")
    for suffix in tables.FORMATS:
        tables.write(table, want := tmp_path / f"want{suffix}")
        assert cli("export", recorded, "--what", what, "--to", tmp_path / f"got{suffix}") == Ran(0, "", "")
        assert (tmp_path / f"got{suffix}").read_bytes() == want.read_bytes()


def test_export_without_options_has_a_row_for_each_token(cli: Cli, recorded: Path) -> None:
    assert cli("export", recorded).out.count("\nrun,run,0,") == 24


def test_export_of_a_truncated_trace_writes_what_is_whole_and_warns(cli: Cli, recorded: Path, tmp_path: Path) -> None:
    recorded.write_bytes(recorded.read_bytes()[:-4000])
    ran = cli("export", recorded, "--to", tmp_path / "rounds.csv", "--what", "rounds")
    assert (ran.code, ran.out) == (0, "")
    assert "breaks off after" in ran.err
    rounds = cli("replay", recorded, "--json").json["lanes"][0]["target_forwards"]
    assert len(pd.read_csv(tmp_path / "rounds.csv")) == rounds > 0


def test_an_export_that_cannot_be_is_one_sentence(cli: Cli, recorded: Path, tmp_path: Path) -> None:
    before = recorded.read_bytes()
    assert "ends in .csv, .parquet, .jsonl" in refused(cli("export", "not read yet", "--to", tmp_path / "a.xlsx"))
    assert "is the trace itself" in refused(cli("export", recorded, "--to", tmp_path / "." / recorded.name))
    assert "what = 'words': choose tokens" in refused(cli("export", recorded, "--what", "words"))
    assert "cannot be read" in refused(cli("export", tmp_path / "nothing", "--to", tmp_path / "nothing.csv"))
    assert "cannot be written" in refused(cli("export", recorded, "--to", "/dev/null/a.csv"))
    assert recorded.read_bytes() == before
    assert list(tmp_path.iterdir()) == [recorded]


# drafters, serve


def test_drafters_says_who_can_run_and_why_not(
    cli: Cli, loaded: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_options, "load", lambda _: DecodingEngine(loaded.target, None, loaded.tokenizer))
    ran = cli("drafters", "--json")
    told = {drafter["name"]: drafter for drafter in ran.json}
    assert all(
        set(drafter) == {"name", "exact", "unchecked", "available", "why_not", "paper"} for drafter in told.values()
    )
    assert told["plain"]["available"]
    assert told["plain"]["why_not"] == ""
    assert not told["draft"]["available"]
    assert told["draft"]["why_not"]
    listed = cli("drafters")
    assert listed.code == 0
    head, *rows = listed.out.splitlines()
    assert head.split() == ["name", "output", "runs", "here", "title", "paper"]
    assert [row.split()[0] for row in rows] == list(told)
    assert told["draft"]["why_not"] in next(row for row in rows if row.startswith("draft "))


def test_serve_hands_its_arguments_over(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(server, "serve", lambda *given, **more: seen.extend([*given, more]))
    assert cli("serve", "--port", "7777", *LOADING, "--no-browser").code == 0
    *named, more = seen
    assert named == ["127.0.0.1", 7777, LOAD, "eagle3-tree"]
    assert isinstance(more, dict) and not more.pop("open_browser") and callable(more.pop("say")) and not more


@pytest.mark.parametrize(("said", "kind"), [({}, "off"), ({"DRAFTSCOPE_LOG": "json"}, "json")])
def test_nothing_is_logged_unless_the_environment_says_so(
    said: dict[str, str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def configured(kind: str) -> None:
        raise DraftscopeError(kind)  # before anything starts

    monkeypatch.delenv("DRAFTSCOPE_LOG", raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(server.log, "configure", configured)
    monkeypatch.setattr(server, "refuse_taken", lambda *_: None)
    with pytest.raises(DraftscopeError, match=f"^{kind}$"):
        server.serve(block=False)


def test_decode_loads_what_its_arguments_say(cli: Cli, pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}
    monkeypatch.setattr("draftscope.api.load", lambda **given: seen.update(given) or pair)
    assert cli("decode", "hello", "--max-new-tokens", "2", *LOADING).code == 0
    assert seen == asdict(LOAD) | {"progress": False}


def test_what_can_be_loaded_is_said_under_the_engines_names() -> None:
    """`LoadSettings` travels as keyword arguments, with the same defaults."""
    engine = {name: given.default for name, given in signature(draftscope.load).parameters.items()}
    assert asdict(LoadSettings()) == {name: engine[name] for name in asdict(LoadSettings())}


def test_a_port_in_use_and_a_host_unknown_are_one_sentence(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        sentence = refused(cli("serve", "--port", port))
        assert f"Port {port} on 127.0.0.1" in sentence
        assert "--port" in sentence.partition(";")[2]
    assert "'no such host'" in refused(cli("serve", "--host", "no such host", "--port", port))


WITHOUT = """import sys
from draftscope_app.cli.main import main
port, *packages = sys.argv[1:]
for package in packages:
    sys.modules[package] = None
    print(int(main(["serve", "--port", port])))
    del sys.modules[package]
print(*{*packages, "draftscope_app.engine"} & set(sys.modules))"""


def test_the_dashboard_without_its_packages_says_what_to_install() -> None:
    """And says it first: another program has the port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = [sys.executable, "-c", WITHOUT, str(taken.getsockname()[1]), *PACKAGES]
        ran = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert ran.stdout.split() == ["2"] * len(PACKAGES)
    for package, said in zip(PACKAGES, ran.stderr.splitlines(), strict=True):
        assert said.endswith(f"needs {package}; install it with: pip install 'draftscope[app]'.")


# Processes of their own.


def alone(*lines: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    """Commands in a fresh interpreter, which says after each whether torch or gradio was imported."""
    code = (
        "import json, sys; from draftscope_app.cli.main import main\n"
        "for line in json.loads(sys.argv[1]):\n"
        "    code = int(main(line))\n"
        "    print(code, bool({'torch', 'gradio'} & set(sys.modules)), *line[:1], file=sys.stderr)"
    )
    words = json.dumps([[str(word) for word in line] for line in lines])
    return subprocess.run([sys.executable, "-c", code, words], capture_output=True, text=True, check=True)


def test_help_replay_and_export_import_no_torch(recorded: Path) -> None:
    ran = alone(["--help"], *([command, "--help"] for command in COMMANDS), ["replay", recorded], ["export", recorded])
    assert ran.stderr.splitlines() == [f"0 False {name}" for name in ("--help", *COMMANDS, "replay", "export")]
    assert "24 tokens" in ran.stdout
    assert "\nrun,lane," in ran.stdout


def test_without_stdout_nothing_is_shown() -> None:
    """`>&-`, as some services start their programs."""
    command = [sys.executable, "-m", "draftscope_app.cli.main", "pairs"]
    ran = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_reader_that_leaves_is_no_stack_trace(recorded: Path) -> None:
    command = [sys.executable, "-m", "draftscope_app.cli.main", "replay", str(recorded)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), said) == (141, "")  # not 1: that `check` has found a difference
