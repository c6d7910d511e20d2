"""`draftscope bench` at tiny sizes: files, exit codes, one sentence each; and a benchmark without the app."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, cast

import pytest
import typer
from typer.main import get_command

from draftscope.base.errors import DraftscopeError
from draftscope.base.markdown import one_line
from draftscope.base.prompts import select, shipped
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.options import LengthOptions, RuleOptions
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.bench_plan import QUICK, BenchPlan
from draftscope.measure.greedy_checks import PROMPTS
from draftscope.measure.joint import joint_distance
from draftscope_app.cli import command_options, fields, plans, terminal
from draftscope_app.cli.main import main
from tests.support.command import Cli, command_line, instead_of_loading

TINY = ("--quick", "--tokens", "6", "--repeats", "1", "--kinds", "story,code", "--drafters", "draft,ngram")


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """`draftscope bench` with its files in `tmp_path`."""
    return command_line(capsys, "bench", "--out", tmp_path)


@pytest.fixture
def loaded(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> DecodingEngine:
    return instead_of_loading(monkeypatch, pair)


def planned(*arguments: str) -> BenchPlan:
    """The plan that the command line makes of its arguments."""
    found: list[BenchPlan] = []
    own = typer.Typer(add_completion=False)

    @own.command()
    @fields.takes(wanted=plans.plan_options(BenchPlan()))
    def bench(wanted: fields.Given, quick: Annotated[bool, typer.Option("--quick")] = False) -> int:
        found.append(plans.make_plan(wanted, QUICK if quick else BenchPlan()))
        return 0

    get_command(own).main(list(arguments), standalone_mode=False)
    return found[0]


# files


def test_quick_leaves_json_markdown_and_a_page(cli: Cli, loaded: DecodingEngine, tmp_path: Path) -> None:
    ran = cli(*TINY)
    assert ran.code == 0
    saved = json.loads((tmp_path / "bench.json").read_text())
    assert {row["kind"] for row in saved["rows"]} == {"story", "code"}
    assert {row["drafter"] for row in saved["rows"]} == {"plain", "draft", "ngram", ""}
    assert {row["temperature"] for row in saved["rows"]} == {0.0, 1.0}
    assert {row["gamma"] for row in saved["rows"]} == {4, None}
    assert ran.out.strip() == (tmp_path / "bench.md").read_text().strip()
    assert (tmp_path / "bench.html").read_text().startswith("<!DOCTYPE html>")
    assert f"wrote bench.json, bench.md, bench.html to {tmp_path}." in ran.err


def test_json_is_one_object_on_stdout_and_nothing_else(cli: Cli, loaded: DecodingEngine, tmp_path: Path) -> None:
    ran = cli(*TINY, "--json", "--no-peers")
    assert json.loads(ran.out) == json.loads((tmp_path / "bench.json").read_text())
    assert {row["system"] for row in json.loads(ran.out)["rows"]} == {"draftscope"}


def test_prompts_of_ones_own_are_measured_and_broken_lines_named(
    cli: Cli, loaded: DecodingEngine, tmp_path: Path
) -> None:
    file = tmp_path / "own.jsonl"
    file.write_text('{"question": "Why?"}\nbroken\n{"turns": ["Go on", "more"], "category": "writing"}\n')
    ran = cli("--prompts", file, "--tokens", "4", "--repeats", "1", "--drafters", "ngram", "--no-peers", "--json")
    assert ran.code == 0
    assert {row["kind"] for row in json.loads(ran.out)["rows"]} == {"own", "writing"}
    assert "draftscope: own.jsonl: 1 of 3 lines were skipped: line 2 is not JSON" in ran.err


def test_sweeps_of_batch_and_context_are_rows(cli: Cli, loaded: DecodingEngine, tmp_path: Path) -> None:
    sweep = ("--batch", "1,2", "--context", "16,32", "--temperature", "0", "--gamma", "2", "--kinds", "story")
    ran = cli(*TINY, *sweep, "--no-peers", "--json")
    rows = json.loads(ran.out)["rows"]
    assert {(row["batch"], row["context"]) for row in rows} == {(1, 16), (1, 32), (2, 16), (2, 32)}
    sizes = {(row["batch"], row["context"]): row["cache_bytes"] for row in rows if row["drafter"] == "plain"}
    assert sizes[2, 16] == 2 * sizes[1, 16]
    assert sizes[1, 32] - sizes[1, 16] == sizes[1, 16] * 16 / (16 + 6)
    drafted = {(row["batch"], row["context"]): row for row in rows if row["drafter"] == "draft"}
    assert drafted[2, 32]["draft_bytes"] == 2 * loaded.draft.kept_bytes(32 + 6)
    assert all(row["cache_bytes"] == sizes[cell] + row["draft_bytes"] for cell, row in drafted.items())
    assert {row["draft_bytes"] for row in rows if row["drafter"] in ("plain", "ngram")} == {None}
    kept = {(line["model"], line["tokens"]): line["bytes"] for line in json.loads(ran.out)["kept"]}
    assert kept["byte-target", 38] == loaded.target.kept_bytes(38)
    assert kept["byte-draft", 22] == loaded.draft.kept_bytes(22)
    html = (tmp_path / "bench.html").read_text()
    assert "Memory against context" in html and "State of each model against context" in html
    assert "prompts of 32 tokens" in (tmp_path / "bench.md").read_text()


def test_lossy_rules_are_marked_and_their_distance_stands_beside_their_speed(
    cli: Cli, loaded: DecodingEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("draftscope.measure.bench.benchmark.SAMPLES", 600)
    one = ("--kinds", "story", "--no-peers", "--json", "--drafters", "draft,ngram", "--rules", "token,lenient,top-k")
    played: set[tuple[str, str]] = set()
    right = DecodingEngine.start_batch

    def watched(self: DecodingEngine, prompts: Any, settings: Settings, *rest: Any, **more: Any) -> Any:
        if not settings.top_k:  # what is timed, and no distance
            played.add((settings.drafter, settings.options(RuleOptions).rule))
        return right(self, prompts, settings, *rest, **more)

    monkeypatch.setattr(DecodingEngine, "start_batch", watched)
    rows = json.loads(cli(*TINY, *one).out)["rows"]
    assert {rule for drafter, rule in played if drafter == "draft"} == {"token", "lenient", "top-k"}
    by_name = {(row["name"], row["temperature"]): row for row in rows}
    assert {name for name, _ in by_name} == {
        "plain", "ngram, gamma 4", "draft, gamma 4, token", "draft, gamma 4, lenient (lossy)",
        "draft, gamma 4, top-k (lossy)",
    }  # fmt: skip
    assert {name for (name, _), row in by_name.items() if row["lossy"]} == {n for n, _ in by_name if "(lossy)" in n}
    for (name, temperature), row in by_name.items():
        assert (row["distance"] is not None) == ("(lossy)" in name and temperature == 1)
    prompt = loaded.encode(PROMPTS[0], 6)
    for rule in ("lenient", "top-k"):
        settings = Settings.of(drafter="draft", rule=rule, gamma=4, temperature=1.0, top_k=3)
        found = by_name[f"draft, gamma 4, {rule} (lossy)", 1.0]["distance"]
        assert found == asdict(joint_distance(loaded, prompt, settings, 4, 600))
        told = f"{found['total_variation']:.3f} [{found['sampling_total_variation']:.3f}]"
        assert told in (tmp_path / "bench.md").read_text()
        assert f"<td>{told}</td>" in (tmp_path / "bench.html").read_text()
    assert "| draft, gamma 4, lenient (lossy) | T = 0 |" in one_line((tmp_path / "bench.md").read_text())


def test_lengths_chosen_while_drafting_stand_beside_the_full_one(
    cli: Cli, loaded: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: set[tuple[str, str]] = set()
    right = DecodingEngine.start_batch

    def watched(self: DecodingEngine, prompts: Any, settings: Settings, *rest: Any, **more: Any) -> Any:
        played.add((settings.drafter, settings.options(LengthOptions).draft_length))
        return right(self, prompts, settings, *rest, **more)

    monkeypatch.setattr(DecodingEngine, "start_batch", watched)
    wish = ("--kinds", "story", "--no-peers", "--drafters", "draft,ngram", "--lengths", "fixed,cost", "--batch", "1,2")
    rows = json.loads(cli(*TINY, *wish, "--json").out)["rows"]
    assert played == {("plain", "fixed"), ("ngram", "fixed"), ("draft", "fixed"), ("draft", "cost")}
    assert {(row["name"], row["length"]) for row in rows} == {
        ("plain", None), ("ngram, gamma 4", None), ("draft, gamma 4", None), ("draft, gamma 4 by cost", "cost"),
    }  # fmt: skip
    with pytest.raises(DraftscopeError, match="draft_length = 'long'"):
        planned("--lengths", "long")


def test_without_plotly_the_rest_is_there(
    cli: Cli, loaded: DecodingEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "draftscope_app.reports.bench_page", raising=False)
    monkeypatch.delitem(sys.modules, "draftscope.measure.bench.bench_plots", raising=False)
    for name in [name for name in sys.modules if name.split(".")[0] == "plotly"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "plotly", None)  # type: ignore[arg-type]
    ran = cli(*TINY, "--no-peers")
    assert ran.code == 0
    assert "bench.html needs plotly; install it with: pip install 'draftscope[app]'." in ran.err
    assert (tmp_path / "bench.json").is_file()
    assert not (tmp_path / "bench.html").exists()


# the plan


def test_what_is_named_overrides_quick() -> None:
    assert planned("--quick") == QUICK
    assert planned() == BenchPlan()
    plan = planned(
        "--quick", "--gamma", "2,3,2", "--temperature", "0.5", "--batch", "1,8", "--tokens", "7", "--no-peers"
    )
    assert (plan.gammas, plan.temperatures, plan.batches, plan.tokens) == ((2, 3), (0.5,), (1, 8), 7)
    assert (plan.peers, plan.seconds) == (False, QUICK.seconds)


def test_a_chat_model_is_asked_questions_unless_there_are_prompts_of_ones_own(
    pair: DecodingEngine, tmp_path: Path
) -> None:
    plan = BenchPlan(kinds=("code",), prompts_per_kind=1)
    texts = select(shipped(), plan.kinds, plan.prompts_per_kind)
    questions = select(shipped(chat=True), plan.kinds, plan.prompts_per_kind)
    chatting = cast(DecodingEngine, SimpleNamespace(tokenizer=SimpleNamespace(chat_template="{{ messages }}")))
    assert plans.for_target(pair, plan, None, texts) == texts
    assert plans.for_target(chatting, plan, None, texts) == questions != texts
    assert plans.for_target(chatting, plan, tmp_path, texts) == texts


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--gamma", "2,x"), "Invalid value for '--gamma': '2,x' is not a list of whole numbers separated by commas; "),
        (("--batch", "1.5"), "Invalid value for '--batch': '1.5' is not a list of whole numbers separated by commas; "),
        (
            ("--temperature", "hot"),
            "Invalid value for '--temperature': 'hot' is not a list of numbers separated by commas",
        ),
        (("--temperature", "nan"), "Invalid value for '--temperature': 'nan' is not a list of numbers"),
        (("--gamma", ","), "Invalid value for '--gamma': ',' is not a list of whole numbers separated by commas; "),
        (("--kinds", ","), "Invalid value for '--kinds': ',' names nothing; give names separated by commas; "),
        (("--repeats", "two"), "Invalid value for '--repeats': 'two' is not a whole number; "),
        (("--gamma", "99"), "gamma = 99: "),
        (("--batch", "0"), "batch = 0: choose at least 1."),
        (("--context", "1"), "context = 1: choose at least 2."),
        (("--repeats", "0"), "repeats = 0: choose at least 1."),
        (("--tokens", "-1"), "max_new_tokens = -1: "),
        (("--kinds", "song"), "There is no kind of text 'song'; choose from story, code, "),
        (("--drafters", "drafft"), "There is no drafter 'drafft'; did you mean 'draft'?"),
        (("--drafters", "typed"), "The drafter 'typed' waits for a person"),
        (("--prompts", "none.jsonl"), "The prompt file 'none.jsonl' cannot be read"),
        (("--context", "600"), "context = 600: with 96 tokens to write that is more than the 512"),
    ],
)
def test_bad_values_are_one_sentence(
    cli: Cli, loaded: DecodingEngine, arguments: tuple[str, ...], sentence: str
) -> None:
    ran = cli(*arguments)
    assert (ran.code, ran.out) == (2, "")
    (said,) = ran.err.splitlines()
    assert said.startswith(f"draftscope: {sentence}")
    assert said.endswith((".", "?"))


def test_a_folder_that_cannot_be_made_is_said_before_anything_is_measured(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_options, "load", lambda _: pytest.fail("loaded"))
    (tmp_path / "file").write_text("")
    ran = cli("--out", tmp_path / "file" / "folder")
    assert ran.code == 2
    assert "the folder cannot be made" in ran.err


# models


@pytest.mark.usefixtures("little_calibrated")
def test_a_draft_that_cannot_be_loaded_is_named_and_the_rest_goes_on(
    cli: Cli, pair_folders: tuple[Path, Path], tmp_path: Path
) -> None:
    target = pair_folders[0]
    small = ("--quick", "--tokens", "4", "--repeats", "1", "--temperature", "0", "--kinds", "story", "--no-peers")
    ran = cli("--target", target, "--draft", tmp_path / "missing", *small, "--json")
    assert ran.code == 0
    assert f"draftscope: Measured without the draft '{tmp_path / 'missing'}'. There is no model folder " in ran.err
    drafters = {row["drafter"] for row in json.loads(ran.out)["rows"]}
    assert drafters >= {"plain", "ngram"}
    assert "draft" not in drafters


def test_a_target_that_cannot_be_loaded_is_one_sentence(cli: Cli, tmp_path: Path) -> None:
    ran = cli("--target", tmp_path / "missing", "--draft", tmp_path / "missing")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("draftscope: There is no model folder")


def test_a_memory_that_is_full_costs_one_batch_and_no_more(
    cli: Cli, loaded: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_batch = loaded.start_batch

    def no_room(prompts: list[list[int]], *rest: Any, **named: Any) -> Any:
        if len(prompts) > 1:
            raise DraftscopeError("'byte-target' needs 9.9 GB for a cache; ask for fewer new tokens.")
        return start_batch(prompts, *rest, **named)

    monkeypatch.setattr(loaded, "start_batch", no_room)
    ran = cli(*TINY, "--batch", "1,2", "--temperature", "0", "--no-peers", "--json")
    assert ran.code == 0
    assert {row["batch"] for row in json.loads(ran.out)["rows"]} == {1}
    assert "plain was skipped at T = 0, batch 2: 'byte-target' needs 9.9 GB for a cache" in ran.err


# without the app

ENGINE_ALONE = """
import importlib
import pkgutil
import sys

sys.modules.update(dict.fromkeys(("gguf", "gradio", "typer", "rich", "plotly", "draftscope_app")))
import transformers

transformers.__dict__.pop("GgufConfig", None)  # transformers 5.17 has none
sys.modules["transformers"]._class_to_module.pop("GgufConfig", None)
from pathlib import Path
import draftscope

drawing = ("draftscope.trace.figure_style", "draftscope.measure.bench.bench_plots")  # with plotly, once asked for
for module in pkgutil.walk_packages(draftscope.__path__, "draftscope."):
    if module.name not in drawing:
        importlib.import_module(module.name)
from draftscope.base.errors import DraftscopeError
from draftscope.measure.bench import limit
from draftscope.measure.bench.benchmark import benchmark, save
from draftscope.measure.bench.bench_plan import BenchPlan, texts
from tests.programs.gpu import __main__ as gpu
from draftscope.train import family

target, draft, out = sys.argv[1:]
limit.SMALLEST_COPY = 1 << 22
engine = draftscope.load(target, draft, threads=1)
assert len(engine.decode("ab", max_new_tokens=5).token_ids) == 5
plan = BenchPlan(drafters=("ngram",), kinds=("story",), gammas=(4,), tokens=4, repeats=1, peers=False)
save(benchmark(engine, plan, *texts(plan)), Path(out))
try:
    family.train(family.Training("family", Path("nowhere"), Path(out), Path(out)))
except DraftscopeError as error:
    print(error)
sys.argv[1:] = ["--out", out, "--device", "moon"]
sys.exit(gpu.main())
"""


@pytest.mark.slow
def test_the_engine_needs_nothing_of_the_app(pair_folders: tuple[Path, Path], tmp_path: Path) -> None:
    """Every module is imported, and a run, the benchmark, training and the GPU suite work, on a machine without gradio,
    typer, rich, plotly and gguf, and with transformers 5.17."""
    command = [sys.executable, "-c", ENGINE_ALONE, *map(str, pair_folders), str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout.startswith("There is no corpus folder"), ran.stderr
    (said,) = ran.stderr.splitlines()
    assert (ran.returncode, "no device 'moon'" in said) == (2, True)
    assert (tmp_path / "bench.json").is_file()
    assert "| ngram, gamma 4 |" in one_line((tmp_path / "bench.md").read_text())


def test_the_tables_are_drawn_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "# Head\n\n| name | speed |\n|---|---:|\n| draft | 1.50 |\n"
    terminal.markdown(text)
    assert capsys.readouterr().out == text + "\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    terminal.markdown(text)
    drawn = capsys.readouterr().out
    assert "1.50" in drawn
    assert "|---" not in drawn


def test_bench_help_says_its_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.replace("\u2502", " ").split())
    assert "--prompts FILE.jsonl" in text
    assert "drafted tokens in a chain [default: 2,3,4,6]" in text
