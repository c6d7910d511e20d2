"""The front door for Python: every kind of prompt, results that stand by themselves, and what measures."""

from __future__ import annotations

import inspect
import json
import re
from copy import copy
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints
from warnings import catch_warnings, simplefilter

import numpy as np
import pandas as pd
import pytest
import torch

import draftscope
from draftscope import DraftscopeError, Engine, Report, Trace
from draftscope.base import costs
from draftscope.base.costs import PLAIN
from draftscope.base.errors import UnreadWarning
from draftscope.base.progress import Progress
from draftscope.base.steps import Steps
from draftscope.decode import calibration
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import SettingValues, known_settings
from draftscope.measure import greedy_checks
from draftscope.measure.paired_runs import DrafterRun, paired_table
from tests.support.models import made_calibration

TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
CHAT = [
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": "yes"},
    {"role": "user", "content": "so"},
]
PROMPTS = ["hello", "abcabcabcabc", "The sea was calm", "x"]
SHORT: dict[str, Any] = {"max_new_tokens": 12}


@pytest.fixture(scope="module")
def engine(pair: DecodingEngine) -> Engine:
    return Engine(pair.target, pair.draft, pair.tokenizer)


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))


# Prompts.


def test_a_text_its_token_ids_and_a_chat_are_prompts(engine: Engine) -> None:
    run = engine.decode("hello", **SHORT)
    ids = engine.encode("hello")
    for prompt in (ids, tuple(ids), torch.tensor(ids), np.array(ids), list(np.array(ids))):
        assert engine.decode(prompt, **SHORT).token_ids == run.token_ids
    assert engine.decode(ids, **SHORT).start.prompt == "hello"
    chats = copy(engine)
    chats.tokenizer = copy(engine.tokenizer)
    chats.tokenizer.chat_template = TEMPLATE
    told = chats.decode(CHAT, **SHORT)
    assert told.start.rendered == "user: hello\nassistant: yes\nuser: so\n"
    assert told.start.prompt == "so" and told.token_ids == engine.decode(told.start.rendered, **SHORT).token_ids
    with pytest.raises(DraftscopeError, match="A list of messages needs a chat template, but the prompt is read raw"):
        chats.decode(CHAT, raw=True)
    with pytest.raises(DraftscopeError, match=r"message = \{'role': 'user'\}: write \{'role': 'user', 'content'"):
        chats.decode([{"role": "user"}])


@pytest.mark.parametrize(
    ("prompt", "sentence"),
    [
        ([], "The list of prompts is empty"),
        (3, "prompt = 3: give a text, a list of messages"),
        ([3.5], "prompt = 3.5: give a text"),
        ([-1, 4], "token = -1: token ids begin at 0"),
        ([1, 999], "The prompt has token 999, but 'byte-target' knows only 0 to 257"),
        (CHAT[0], r"prompt = \{'role': 'user', 'content': 'hello'\}: give a text, a list of messages"),
        ({"input_ids": [[1, 2]]}, r"prompt = \{'input_ids': \[\[1, 2\]\]\}: give a text"),
        (b"hello", "prompt = b'hello': give a text"),
        ("a\udcff", r"prompt contains \\udcff, which is half of a character"),
        (torch.tensor(5), r"prompt = tensor\(5\): give a text"),
        (CHAT, "A list of messages needs a chat template, but this model has no chat template"),
        (["hello", ""], "The prompt is empty"),
    ],
)
def test_what_is_no_prompt_is_one_sentence(engine: Engine, prompt: Any, sentence: str) -> None:
    with pytest.raises(DraftscopeError, match=sentence):
        engine.decode(prompt)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("drafter", ["plain", "draft", "topk-tree", "ngram"])
def test_a_list_is_decoded_as_its_prompts_are_whatever_the_batch(
    engine: Engine, drafter: str, temperature: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """Greedy texts are those of the prompts by themselves; drawn ones have a random stream for each prompt."""
    settings: dict[str, Any] = {"temperature": temperature, "seed": 4, "max_new_tokens": 12}
    alone = [engine.decode(prompt, drafter, **settings) for prompt in PROMPTS]
    assert capsys.readouterr().err == ""
    traces = [engine.decode(PROMPTS, drafter, batch=batch, **settings) for batch in (1, 3, 16)]
    assert "/4 [" in capsys.readouterr().err  # the bar
    ids = [[run.token_ids for run in trace] for trace in traces]
    assert ids[0] == ids[1] == ids[2]
    assert (ids[0] == [run.token_ids for run in alone]) == (temperature == 0)
    assert ids[0][0] == alone[0].token_ids
    for trace in traces:
        assert [run.start.prompt for run in trace] == PROMPTS and len(trace) == 4
        for run in trace:
            assert "".join(event.text_delta for event in run.round_events) == run.text
            assert run.metrics.target_forwards == len(run.round_events)


def test_a_batch_says_what_each_run_of_it_did(engine: Engine, tmp_path: Path) -> None:
    trace = engine.decode(PROMPTS, "draft", temperature=1.0, gamma=3, seed=9, progress=False, **SHORT)
    trace.save(tmp_path / "runs.jsonl.gz")
    again = draftscope.read(tmp_path / "runs.jsonl.gz")
    assert again.events == trace.events and again.texts == trace.texts and again.warning == ""
    for what in ("tokens", "rounds", "decisions"):
        pd.testing.assert_frame_equal(getattr(again, what), getattr(trace, what))
    tokens = trace.tokens
    assert tokens.groupby("prompt", sort=False).size().to_dict() == dict.fromkeys(PROMPTS, 12)
    assert {tuple(row) for row in tokens[["drafter", "seed", "temperature", "gamma"]].to_numpy()} == {
        ("draft", 9, 1, 3)
    }
    assert trace.runs.text.tolist() == trace.texts and trace.runs.prompt.tolist() == PROMPTS
    assert [run.token_ids for run in trace[1:3]] == [run.token_ids for run in trace][1:3]
    assert repr(trace).startswith("Trace of 4 runs\n  0: draft, T = 1, 12 tokens")
    assert "<table" in trace._repr_html_()
    unrecorded = engine.decode(PROMPTS, "draft", False, temperature=1.0, gamma=3, seed=9, progress=False, **SHORT)
    assert unrecorded.texts == trace.texts and not unrecorded.round_events
    assert "12 tokens, not recorded" in repr(unrecorded) and "not recorded" in unrecorded._repr_html_()
    for ask in (lambda: unrecorded.runs, lambda: unrecorded[0].metrics):
        with pytest.raises(DraftscopeError, match="record = False: this run has no recorded rounds"):
            ask()
    assert trace[np.int64(1)].text == trace[1].text
    for batch in (0, "3"):
        with pytest.raises(DraftscopeError, match=f"batch = {batch!r}: choose a whole number"):
            engine.decode(PROMPTS, batch=batch)  # type: ignore[call-overload]


# Results.


def test_a_result_is_shown_saved_and_exported(engine: Engine, tmp_path: Path) -> None:
    run = engine.decode("<b>&", temperature=1.0, seed=3, **SHORT)
    assert repr(run).startswith("Result(draft, T = 1, 12 tokens, ") and f"text={run.text!r}"[:8] in repr(run)
    shown = run._repr_html_()
    assert "&lt;b&gt;&amp;" in shown and "<b>" not in shown and "12 tokens" in shown
    run.save(tmp_path / "run.jsonl")
    assert draftscope.read(tmp_path / "run.jsonl")[0] == run
    run.export(tmp_path / "run.csv", "rounds")
    assert len(pd.read_csv(tmp_path / "run.csv")) == len(run.rounds)
    run.export(tmp_path / "run.html")
    assert (tmp_path / "run.html").read_text(encoding="utf-8") == run.show().html
    with pytest.raises(DraftscopeError, match="name a file that ends in"):
        run.export(tmp_path / "run.xlsx")
    with pytest.raises(DraftscopeError, match="cannot be written"):
        run.export(tmp_path / "none" / "run.html")


def test_a_run_that_breaks_off_is_read_as_far_as_it_goes(engine: Engine, tmp_path: Path) -> None:
    run = engine.decode("hello", temperature=1.0, **SHORT)
    file = tmp_path / "run.jsonl"
    run.save(file)
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(lines[:4]) + lines[4][:20], encoding="utf-8")
    read = draftscope.read(file)
    assert "breaks off after 4 events" in read.warning
    assert run.text.startswith(read[0].text) and run.token_ids[: len(read[0].token_ids)] == read[0].token_ids


def test_every_round_is_called_back_and_may_end_the_run(engine: Engine) -> None:
    class EnoughError(Exception):
        pass

    seen: list[int] = []

    def watch(event: Any) -> None:
        seen.append(event.round)
        if event.round == 2:
            raise EnoughError

    with pytest.raises(EnoughError):
        engine.decode("hello", "plain", on_round=watch, **SHORT)
    assert seen == [0, 1, 2]
    seen.clear()
    assert engine.decode("hello", "plain", on_round=None, **SHORT).round_events
    engine.decode(["a", "b"], "plain", on_round=lambda event: seen.append(event.round), progress=False, **SHORT)
    assert sorted(seen) == sorted([*range(12)] * 2)
    with pytest.raises(DraftscopeError, match="on_round = 5: give a function of a round"):
        engine.decode("hello", on_round=5)  # type: ignore[call-overload]


def test_what_a_drafter_needs_measured_first_is_said(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def calibrated(*_: Any) -> Steps[Progress, costs.Calibration]:
        yield Progress("what a round costs", 0.5)
        return made_calibration()

    monkeypatch.setattr(engine, "calibrated", calibrated)
    chosen: dict[str, Any] = {"draft_length": "cost", **SHORT}
    for run in (
        lambda **bar: engine.decode("hello", "draft", **bar, **chosen),
        lambda **bar: engine.decode(["a", "b"], "draft", **bar, **chosen),
        lambda **bar: engine.race("hello", "draft", repeats=0, **bar, **chosen),
        lambda **bar: engine.compare(["a", "b"], "draft", **bar, **chosen),
    ):
        run()
        assert "what a round costs, 50%" in capsys.readouterr().err
        run(progress=False)
        assert capsys.readouterr().err == ""


def test_a_stop_string_needs_no_tuple(engine: Engine) -> None:
    free = engine.decode("hello", max_new_tokens=40)
    stop = free.text[5:7]
    assert engine.decode("hello", max_new_tokens=40, stop=stop).text == free.text[: free.text.index(stop) + len(stop)]


# Arguments.


def test_every_setting_is_an_argument_that_completes() -> None:
    names = set(known_settings()) - {"drafter"}
    assert set(get_type_hints(SettingValues)) == names
    for method in (Engine.decode, Engine.rounds, Engine.race):
        parameters = inspect.signature(method).parameters
        assert names <= parameters.keys()
        assert parameters["gamma"].default == 4 and parameters["gamma"].kind is inspect.Parameter.KEYWORD_ONLY
        assert not any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    assert "target" in inspect.signature(draftscope.load).parameters


def test_the_readmes_example_runs(engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(draftscope, "load", lambda **_: engine)
    readme = Path(__file__).resolve().parents[2] / "engine" / "README.md"
    code = re.search(r"## From Python\n\n```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    assert code is not None
    exec(code[1], {})
    assert draftscope.read("run.jsonl.gz")[0].start.seed == 3
    assert Path("run.html").stat().st_size > 10_000


def test_a_misspelt_argument_gets_a_hint(engine: Engine) -> None:
    with pytest.raises(DraftscopeError, match=r"There is no setting 'temprature'; did you mean 'temperature'\?"):
        engine.decode("hello", temprature=1.0)  # type: ignore[call-overload]
    with pytest.raises(DraftscopeError, match="There is no argument 'temperature'; known are drafter, samples, "):
        engine.check("ngram", temperature=1)  # type: ignore[call-arg]
    with pytest.raises(DraftscopeError, match=r"There is no argument 'gamma'; did you mean 'gammas'\?"):
        engine.bench(["hello"], gamma=2)  # type: ignore[call-arg]
    with pytest.raises(DraftscopeError, match="There is no argument 'model'; known are target, draft, "):
        draftscope.load(model="x")
    with pytest.raises(DraftscopeError, match=r"There is no argument 'draf'; did you mean 'draft'\?"):
        draftscope.load(draf="x")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"target": 5}, "target = 5: give a hub id, a folder"),
        ({"target": ""}, "target = '': give a hub id"),
        ({"draft": ["a"]}, r"draft = \['a'\]: give a hub id"),
        ({"threads": "2"}, "threads = '2': this machine has"),
        ({"threads": True}, "threads = True: this machine has"),
        ({"heads": "eagle3:x"}, "heads = 'eagle3:x': give a list"),
    ],
)
def test_what_names_no_model_is_one_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DraftscopeError, match=sentence):
        draftscope.load(**arguments)


def test_a_setting_that_no_drafter_reads_is_named(engine: Engine) -> None:
    with pytest.warns(UnreadWarning, match=r"^'ngram' does not read shape, rule\.$") as caught:
        run = engine.decode("hello", "ngram", shape=(2,), rule="typical", gamma=2, **SHORT)
    assert caught[0].filename == __file__ and run.token_ids == engine.decode("hello", "ngram", **SHORT).token_ids
    with pytest.warns(UnreadWarning, match=r"^None of plain, ngram, draft reads shape\.$"):
        engine.race("hello", ["ngram", "draft"], shape=(2,), ngram=3, repeats=0, progress=False, **SHORT)
    with catch_warnings():
        simplefilter("error")
        engine.decode("hello", "bandit", arms=("ngram",), gamma=2, **SHORT)  # an arm reads it


def test_a_wrong_list_of_values_is_one_sentence(engine: Engine) -> None:
    for settings, sentence in (
        ({"shape": "3,2"}, "shape = '3,2': should be a list"),
        ({"arms": []}, r"arms = \[\]: should have at least 1\."),
        ({"stop": ["a"] * 20}, r"should have at most 16\."),
    ):
        with pytest.raises(DraftscopeError, match=sentence):
            engine.decode("hello", **settings)  # type: ignore[call-overload]


def test_everything_exported_says_what_it_is() -> None:
    for name in draftscope.__all__:
        assert len(inspect.getdoc(getattr(draftscope, name)) or "") > 20, name
    assert (
        {"Drafter", "DrafterInfo", "DraftTree", "Settings", "Trace"} <= set(draftscope.__all__) == set(dir(draftscope))
    )
    for kind in (Engine, draftscope.Result, Trace, draftscope.Watched):
        for name in vars(kind):
            assert name.startswith("_") or inspect.getdoc(getattr(kind, name)), name
    settings = inspect.getdoc(draftscope.Settings) or ""
    assert all(f"\n{name} = " in settings for name in known_settings())
    plain = {"name", "title", "topology", "tokenizer", "round", "tree"}  # what they are, their names say
    for made in (draftscope.DrafterInfo, draftscope.DraftTree, draftscope.Parts, draftscope.State, draftscope.Outcome):
        assert {field.name for field in fields(made) if f"`{field.name}" not in (made.__doc__ or "")} <= plain, made


def test_a_run_without_a_drafters_name_takes_what_is_loaded(pair: DecodingEngine) -> None:
    alone = Engine(pair.target, None, pair.tokenizer)
    assert alone.decode("hello", **SHORT).start.drafter == "ngram"
    assert Engine(pair.target, pair.draft, pair.tokenizer).decode("hello", **SHORT).start.drafter == "draft"


# What measures.


def test_an_engine_says_what_it_has_loaded(engine: Engine) -> None:
    assert repr(engine) == "Engine(byte-target, draft byte-draft, float32 on cpu)"


def test_a_race_is_a_trace_of_its_lanes(engine: Engine) -> None:
    trace = engine.race("abcabc", ["ngram", "draft"], repeats=1, **SHORT)
    assert isinstance(trace, Trace)
    assert [run.start.lane for run in trace] == ["plain", "ngram", "draft"]
    assert len({tuple(run.token_ids) for run in trace}) == 1
    assert "iframe" in trace.show()._repr_html_()
    assert [run.start.lane for run in engine.race("abcabc", "ngram", repeats=0, **SHORT)] == ["plain", "ngram"]
    with pytest.raises(DraftscopeError, match="repeats = -1: choose a whole number"):
        engine.race("abcabc", "ngram", repeats=-1)
    with pytest.raises(DraftscopeError, match="drafters names the drafters of all lanes; give no drafter"):
        engine.race("abcabc", drafter="ngram")  # type: ignore[call-arg]


def test_a_comparison_is_paired_by_prompt(engine: Engine) -> None:
    table = engine.compare(PROMPTS[:3], ["draft", "plain", "ngram"], seeds=(1, 2), progress=False, **SHORT)
    assert table.drafter.tolist() == ["plain", "draft", "ngram"] and (table.runs == 6).all()
    plain, draft = table.iloc[0], table.iloc[1]
    assert (plain.ratio, plain.ratio_low, plain.ratio_high, plain.tau) == (1, 1, 1, 1)
    assert (table.equal_texts == 1).all()
    assert (table.tau_low <= table.tau).all() and (table.tau <= table.tau_high).all()
    assert draft.tau_difference == pytest.approx(draft.tau - 1)
    with pytest.raises(DraftscopeError, match="seeds names the seeds of all runs"):
        engine.compare(PROMPTS, ["draft"], seed=3)
    for seeds, sentence in ((3, "seeds names the seeds"), (("a",), "seed = 'a': should be"), ((-1,), "seed = -1:")):
        with pytest.raises(DraftscopeError, match=sentence):
            engine.compare(PROMPTS, "draft", seeds)  # type: ignore[arg-type]


def test_paired_intervals_do_not_widen_where_prompts_differ() -> None:
    """Twice as fast on every prompt, whose speeds differ by a factor of a hundred; a prompt's seeds count once."""
    slow = [DrafterRun("plain", n, seed, (1,) * 8, 8, 10.0**n) for n in range(3) for seed in (0, 1)]
    fast = [DrafterRun("fast", n, seed, (1,) * 8, 4, 10.0**n / 2) for n in range(3) for seed in (0, 1)]
    row = paired_table([*slow, *fast], "plain").set_index("drafter").loc["fast"]
    assert (row.ratio, row.ratio_low, row.ratio_high) == pytest.approx((2, 2, 2))
    assert (row.tau, row.tau_difference, row.tau_low, row.tau_high) == pytest.approx((2, 1, 2, 2))
    uneven = [DrafterRun("fast", n, seed, (1,) * 8, 4, 10.0**n / (n + 1)) for n in range(3) for seed in (0, 1)]
    row = paired_table([*slow, *uneven], "plain").set_index("drafter").loc["fast"]
    assert row.ratio == pytest.approx(6 ** (1 / 3)) and 1 <= row.ratio_low < row.ratio < row.ratio_high < 3.0001
    one = paired_table([slow[0], fast[0]], "plain").set_index("drafter").loc["fast"]
    assert one.ratio == pytest.approx(2) and np.isnan([one.ratio_low, one.ratio_high, one.tau_low]).all()


def test_a_check_is_a_report(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greedy_checks, "PROMPTS", greedy_checks.PROMPTS[:2])
    report = engine.check("ngram", samples=600, progress=False)
    assert isinstance(report, Report) and "no difference was found" in report.summary
    assert report.table.passed.all() and len(report.table) == len(report.value)
    assert report.summary in repr(report) and "<table" in report._repr_html_()
    for samples in (0, 64, "2048"):
        with pytest.raises(DraftscopeError, match=f"samples = {samples!r}: too few"):
            engine.check("ngram", samples=samples)  # type: ignore[arg-type]


def test_a_check_of_one_text_tells_no_difference(engine: Engine) -> None:
    report = engine.check("ngram", samples=600, prompts=["hello"], progress=False)
    assert report.table.passed.all() and not report.table.error.any()


@pytest.fixture
def calibrated(engine: Engine) -> Engine:
    """With costs that were made up, saved where a measured calibration would be."""
    drafting = dict.fromkeys([PLAIN, *calibration.drafting_of(engine)], made_calibration().drafting["draft"])
    costs.save(made_calibration(measured_for=calibration.measured_for(engine), drafting=drafting))
    return copy(engine)


def test_a_calibration_is_a_report(calibrated: Engine) -> None:
    report = calibrated.calibrate(progress=False)
    assert report.value == calibrated.calibration and {"width", "batch", "context", "ms"} <= set(report.table)


def test_a_benchmark_takes_a_list_kinds_or_a_file(calibrated: Engine, tmp_path: Path) -> None:
    file = tmp_path / "set.jsonl"
    file.write_text("".join(json.dumps({"prompt": text, "kind": "k"}) + "\n" for text in PROMPTS), encoding="utf-8")
    once: dict[str, Any] = {"tokens": 8, "repeats": 1, "gammas": (2,)}
    report = calibrated.bench(file, ["draft"], **once)
    assert set(report.table.kind) == {"k"} and "draft, gamma 2" in report.summary
    assert {"name", "tokens_per_s", "ratio_to_plain_median", "ratio_to_plain_low"} <= set(report.table)
    plots = report.plots()
    assert {"Headline", "Predicted beside measured"} <= set(plots) and "draft, gamma 2" in plots["Headline"].data[0].y
    both = calibrated.bench({"short": PROMPTS[:1], "long": PROMPTS[2:3]}, ["draft"], **once)
    assert set(both.table.kind) == {"short", "long"}
    assert set(calibrated.bench(PROMPTS[:1], ["draft"], **once).table.kind) == {"prompts"}
    for prompts, sentence in (
        ([3], "prompt = 3: a dataset holds texts"),
        (3, "prompt = 3: a dataset holds texts"),
        ([" "], "The prompt is empty"),
        ([], "The list of prompts is empty"),
        ({"k": []}, "The list of prompts is empty"),
    ):
        with pytest.raises(DraftscopeError, match=sentence):
            calibrated.bench(prompts)  # type: ignore[arg-type]
