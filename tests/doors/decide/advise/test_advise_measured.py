"""Advice that is measured: probing, proof and the command, at tiny sizes. Nothing here depends on a clock."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pytest

import draftscope
from draftscope.advise import proof
from draftscope.advise.advice_verdict import AdviceDecision, Measured, Verdict
from draftscope.advise.advise import (
    ACCEPTANCE,
    PROOF,
    _head_of,
    _without_loops,
    advise,
    advising,
    promising,
    without_costs,
)
from draftscope.advise.candidates import Candidate
from draftscope.advise.fitted import fitted, noise
from draftscope.advise.observed import Observed
from draftscope.advise.probed_acceptance import Probed, able, probe
from draftscope.advise.probed_costs import probed_costs
from draftscope.advise.question import Objective, Question
from draftscope.advise.report import Advised
from draftscope.advise.round_costs import CalibratedCosts
from draftscope.advise.speed_model import Predicted, round_cost
from draftscope.base.cores import Company
from draftscope.base.errors import DraftscopeError
from draftscope.base.progress import Progress
from draftscope.base.prompts import Prompt, shipped
from draftscope.base.steps import Cancelled, last
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters import find
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.round_arrays import MeasuredRounds
from draftscope.measure.bench.runner import BenchRun
from draftscope.measure.bench.statistics import Interval
from draftscope.measure.bench.systems import PLAIN, Case, Label
from tests.support.command import Cli, command_line, instead_of_loading
from tests.support.models import made_calibration

Found = TypeVar("Found")

TEXTS = {"letters": [Prompt("letters", text) for text in ("abcabcabc", "the sea and the", "0123456789")]}
CASE = Case("letters", 0, ((0, 1, 2),), 0.0)


def finished(steps: Generator[object, None, Found]) -> Found:
    """What the steps found."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast(Found, end.value)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return command_line(capsys, "advise")


# probing


def accepted_in_rounds(engine: DecodingEngine, gamma: int, like: Observed) -> list[int]:
    """Tokens accepted in each of as many rounds of a chain that was run."""
    settings = Settings.of(drafter="draft", gamma=gamma, max_new_tokens=80)
    session = engine.start_batch([[0, 1, 2]], settings, (0,), ends=False)
    session.prefill()
    return [len(step.paths[0]) for step in islice(session.steps(), len(like.prompts[0].accepted))]


def rounds_of(probed: Probed) -> dict[Candidate, Observed]:
    return {candidate: Observed(tuple(rounds)) for candidate, rounds in probed.by_candidate.items()}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_smaller_sizes_follow_from_the_same_rounds(tiny: DecodingEngine, temperature: float) -> None:
    cases = [Case("k", number, ((0, 1, 2),), temperature) for number in range(2)]
    found, notes = finished(probe(tiny, cases, [find("draft"), find("sampled-tree")], 40, 60.0, lambda probed: {}))
    chains = {each.gamma: own for each, own in rounds_of(found["draft"]).items()}
    assert notes == [] and sorted(chains) == [1, 2, 3, 4, 5, 6, 8]
    for gamma, observed in chains.items():
        assert (observed.nodes == gamma).all() and (observed.levels == gamma).all()
        assert (observed.accepted <= gamma).all()
    assert chains[1].tau <= chains[3].tau <= chains[8].tau
    if temperature == 0:
        for gamma in (1, 2, 5):
            assert chains[gamma].prompts[0].accepted.tolist() == accepted_in_rounds(tiny, gamma, chains[gamma])
    trees = {each.shape: own for each, own in rounds_of(found["sampled-tree"]).items()}
    assert (trees[2, 1].nodes == 4).all() and trees[2, 1].tau <= trees[3, 2, 1, 1].tau


def test_a_drafter_that_fails_is_left_out_and_said(tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise DraftscopeError("no luck")

    info = find("ngram")
    monkeypatch.setattr("draftscope.drafters.lookup.ngram.Ngram.propose", broken)
    found, notes = finished(probe(tiny, [CASE], [info, find("draft")], 8, 60.0, lambda probed: {}))
    assert "ngram" not in found and "draft" in found
    assert notes == ["ngram was left out: no luck"]


def test_those_far_behind_are_not_run_on_every_prompt(tiny: DecodingEngine) -> None:
    cases = [Case("k", number, ((0, 1, 2),), 0.0) for number in range(4)]
    found, _ = finished(
        probe(tiny, cases, [find("draft"), find("ngram")], 12, 60.0, lambda probed: {"draft": 1.5, "ngram": 0.4})
    )
    assert "ngram" not in found and len(found["draft"].ids) == len(found["plain"].ids) == 4


def test_costs_agree_with_the_rounds_that_were_probed(tiny: DecodingEngine) -> None:
    found, _ = finished(probe(tiny, [Case("k", 0, ((0, 1, 2),), 0.0)], [find("draft")], 40, 60.0, lambda probed: {}))
    costs = fitted(made_calibration(), found, 100)
    run, ms = found["draft"], {name: MeasuredRounds.joined(own.rounds).round_ms for name, own in found.items()}
    ratio = round_cost(run.run, rounds_of(run)[run.run], costs)
    assert ratio == pytest.approx(ms["draft"] / ms["plain"], rel=1e-6)


def timed_rounds(nodes: int, levels: int, ms: float, count: int = 8) -> tuple[MeasuredRounds, list[int]]:
    zeros = np.zeros((count, 1), dtype=np.int64)
    stages = np.tile([ms, 0.0, 0.0, 0.0, 0.0], (count, 1))
    found = MeasuredRounds(np.full(count, nodes + 1), stages, zeros + 1, zeros, zeros + levels, np.zeros(count))
    return found, [levels] * count


@pytest.mark.parametrize("fixed", [0.0, 2.0])
def test_costs_are_right_at_both_timed_sizes_and_between(fixed: float) -> None:
    """A drafter whose rounds take 1.5 times what the calibration says, and `fixed` ms more at every size."""
    made, context = made_calibration(), 100
    base = CalibratedCosts(made, context, {"topk-tree": "draft"})

    def true_ms(nodes: int, levels: int) -> float:
        return 1.5 * base.ms("topk-tree", nodes, levels, 1) + fixed

    probed = Probed(Candidate("topk-tree", shape=(3, 2, 1, 1)), Candidate("topk-tree", shape=(2,)))
    large, small = timed_rounds(21, 4, true_ms(21, 4)), timed_rounds(2, 1, true_ms(2, 1))
    probed.rounds, probed.levels = [large[0]], [large[1]]
    probed.small_rounds, probed.small_levels = [small[0]], [small[1]]
    costs = fitted(made, {"topk-tree": probed}, context)
    for nodes, levels in ((2, 1), (6, 3), (21, 4)):
        assert costs.ms("topk-tree", nodes, levels, 1) == pytest.approx(true_ms(nodes, levels))
    assert costs.ms("topk-tree", 2, 1, 4) > costs.ms("topk-tree", 2, 1, 1)


def test_a_smaller_size_never_costs_more_than_a_larger_one() -> None:
    made = made_calibration()
    probed = Probed(Candidate("draft", 8), Candidate("draft", 1))
    (large, deep), (small, flat) = timed_rounds(8, 8, 10.0), timed_rounds(1, 1, 12.0)
    probed.rounds, probed.levels, probed.small_rounds, probed.small_levels = [large], [deep], [small], [flat]
    costs = fitted(made, {"draft": probed}, 100)
    assert costs.ms("draft", 1, 1, 1) == pytest.approx(11) == costs.ms("draft", 8, 8, 1)


def test_it_says_how_far_it_is_and_can_be_stopped(pair: DecodingEngine) -> None:
    question = Question(length=12, seconds=1.0, temperature=1.0)
    now = [each for each in advising(pair, question, TEXTS, ["ngram"]) if isinstance(each, Progress)]
    chosen = [each for each in now if each.doing in (ACCEPTANCE, PROOF)]
    assert list(dict.fromkeys(each.doing for each in chosen)) == [ACCEPTANCE, PROOF]
    assert all(each.seconds_left is not None and each.seconds_left <= 1 for each in chosen)
    assert chosen[0].share < chosen[-1].share < 1
    calls = 0

    def watch() -> None:
        nonlocal calls
        calls += 1
        if calls > 30:
            raise Cancelled

    with pytest.raises(Cancelled):
        list(advising(pair, question, TEXTS, ["ngram"], watch=watch))
    assert calls == 31


@pytest.fixture
def uncosted(pair: DecodingEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DecodingEngine]:
    """The pair on a machine whose costs nobody has measured."""
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path))
    known = pair.__dict__.get("calibration")
    pair.forget_costs()
    yield pair
    pair.forget_costs()
    if known is not None:
        pair.calibration = known


def test_a_verdict_does_not_wait_for_costs_which_are_measured_where_it_is_asked_to(
    uncosted: DecodingEngine, little_calibrated: None
) -> None:
    question = Question(length=12, seconds=1.0)
    steps = list[Any]()
    report = watched(advising(uncosted, question, TEXTS, ["ngram", "draft"]), steps)
    assert not [each for each in steps if isinstance(each, Progress) and each.doing not in (ACCEPTANCE, PROOF)]
    assert uncosted.known_costs() is None and report.measured and report.surface is None and report.limits.known_to == 1
    assert report.costs_s is not None and report.costs_s > 0
    promised, *looks = [each for each in steps if isinstance(each, Advised)]
    assert promised.so_far.endswith("by what was accepted") and all(look.verdict for look in looks if look.ratio)
    full = watched(advising(uncosted, question, TEXTS, ["ngram", "draft"], waits=True), steps)
    assert uncosted.known_costs(["ngram", "draft"]) is not None and full.surface is not None and full.costs_s is None


def watched(steps: Generator[Any, None, Found], seen: list[Any]) -> Found:
    """What the steps found; each is added to those that were `seen`."""
    return last(steps, seen.append)


def test_the_seconds_are_kept_by_trying_the_promising_drafters_first(uncosted: DecodingEngine) -> None:
    infos = promising([find("ngram"), find("draft"), find("eagle3")])
    assert [info.name for info in infos] == ["eagle3", "draft", "ngram"]
    rank = dict.fromkeys
    steps = probe(uncosted, [CASE], [find("draft"), find("ngram")], 6, 0.0, lambda seen: rank(seen, 1.0), most=0.0)
    probed, notes = finished(steps)
    assert list(probed) == ["plain", "draft"] and "the seconds were over: ngram." in notes[0]
    every, _ = finished(probe(uncosted, [CASE], [find("draft"), find("ngram")], 6, 0.0, lambda seen: rank(seen, 1.0)))
    assert list(every) == ["plain", "draft", "ngram"] and every["ngram"].rounds


def test_what_chooses_by_costs_is_left_out_until_they_are_measured() -> None:
    able_now, notes = without_costs([find("ngram"), find("hybrid")])
    assert [info.name for info in able_now] == ["ngram"] and "hybrid" in notes[0]
    assert without_costs([find("ngram")]) == ([find("ngram")], [])
    with pytest.raises(DraftscopeError, match="measure the costs first"):
        without_costs([find("hybrid")])


def test_probed_costs_go_through_what_was_timed() -> None:
    """Steps, forwards and the rest of a round at both sizes, and a batch as one sequence."""
    plain, probed = Probed(Candidate("plain")), Probed(Candidate("draft", 8), Candidate("draft", 1))
    (one, none), (large, deep), (small, flat) = (timed_rounds(*at) for at in ((0, 0, 5.0), (8, 8, 24.0), (1, 1, 10.0)))
    plain.rounds, plain.levels = [one], [none]
    probed.rounds, probed.levels, probed.small_rounds, probed.small_levels = [large], [deep], [small], [flat]
    costs = probed_costs({"plain": plain, "draft": probed})
    assert costs.plain(1) == pytest.approx(5) == costs.plain(4)
    assert costs.ms("draft", 8, 8, 1) == pytest.approx(24) and costs.ms("draft", 1, 1, 1) == pytest.approx(10)
    assert 10 < costs.ms("draft", 4, 4, 1) < 24
    assert costs.scaled({"draft": 2.0}).ms("draft", 8, 8, 1) == pytest.approx(48)


def test_only_what_a_server_could_run_is_compared_unless_it_is_named(pair: DecodingEngine) -> None:
    names = [info.name for info in able(pair)]
    assert "ngram" in names and "suffix" in names and "draft" in names
    assert not {"plain", "oracle", "bandit", "typed", "slem"} & set(names)
    assert [info.name for info in able(pair, ["slem"])] == ["slem"]
    with pytest.raises(DraftscopeError, match="compared with plain decoding"):
        able(pair, ["plain"])
    with pytest.raises(DraftscopeError, match="cascade"):
        able(DecodingEngine(pair.target, None, pair.tokenizer), ["cascade"])


# proof


def made_run(label: Label, case: Case, seconds: float, repeat: int = 0, ends: tuple[int, ...] = ()) -> BenchRun:
    """A run whose rounds take 1 ms, .1 of it beside the stages; sequence b is complete in round `ends[b]`."""
    rounds = None
    if ends:
        emitted = np.array([[int(row < end) for end in ends] for row in range(max(ends))])
        stages = np.tile([0.2, 0.2, 0.2, 0.2, 0.1], (max(ends), 1))
        one = np.ones(max(ends), dtype=np.int64)
        rounds = MeasuredRounds(one, stages, emitted, 0 * emitted, 0 * emitted, 0.1 * one)
    ids = [list(range(8)) for _ in case.prompts]
    return BenchRun(label, case, repeat, seconds, ids, rounds)


def test_sequences_of_a_batch_are_complete_at_their_own_times() -> None:
    case = Case("k", 0, ((1,), (2,)), 0.0)
    found = proof.finish(made_run(Label("draftscope", "draft", 3), case, 0.010, ends=(4, 6)))
    assert found == pytest.approx([8.0, 10.0])  # 4 ms of prefill


def foreseen(candidate: Candidate, ratio: float = 1.4) -> dict[Candidate, Predicted]:
    one = Interval(ratio, ratio, ratio)
    return {candidate: Predicted(candidate, one, 1.0, 0.0, one)}


def test_ratios_are_of_the_same_repeat_and_their_interval_is_over_prompts() -> None:
    draft, runs = Candidate("draft", 3), []
    for number, (own, plain) in enumerate([(1.0, 2.0), (1.0, 1.5), (1.0, 1.2)]):
        case = Case("k", number, ((1,),), 0.0)
        for repeat, slower in enumerate((1.0, 3.0)):  # another machine's load in the second repeat
            runs += [made_run(PLAIN, case, plain * slower, repeat), made_run(draft.label, case, own * slower, repeat)]
    (found,) = proof.measured(Question(), runs, foreseen(draft))
    assert found.ratio.median == pytest.approx((2.0 * 1.5 * 1.2) ** (1 / 3), rel=0.05)
    assert found.ratio.low < found.ratio.median < found.ratio.high
    assert (found.prompts, found.runs, found.tokens, found.predicted) == (3, 6, 8, 1.4)


def test_a_tail_is_of_all_answers_together() -> None:
    draft, runs = Candidate("draft", 3), []
    for number in range(20):
        case = Case("k", number, ((1,),), 0.0)
        runs += [made_run(PLAIN, case, 2.0), made_run(draft.label, case, 4.0 if number == 0 else 1.0)]
    (tail,) = proof.measured(Question(Objective.TAIL), runs, foreseen(draft))
    (latency,) = proof.measured(Question(), runs, foreseen(draft))
    assert latency.ratio.median == pytest.approx(2) and tail.ratio.low < 1 < tail.ratio.high


def test_texts_that_loop_do_not_count() -> None:
    draft, runs = Candidate("draft", 3), []
    for number, plain in enumerate((9.0, 1.5)):
        case = Case("k", number, ((1,),), 0.0)
        runs += [made_run(PLAIN, case, plain), made_run(draft.label, case, 1.0)]
    runs[0].ids[0] = [1, 2] * 20
    (found,) = proof.measured(Question(), runs, foreseen(draft))
    assert found.ratio.median == pytest.approx(1.5) and found.prompts == 1


# noise


def test_a_noisy_machine_is_said_with_the_share_of_other_processes() -> None:
    busy, quiet = Company(1.2, 2, 2), Company(0.0, 2, 2)
    said = noise(busy, [1.0, 1.0, 1.0], 1.0)
    assert len(said) == 1 and "other processes kept 1.2 of 2 cores busy" in said[0]
    assert noise(quiet, [1.0, 1.02, 1.05], 1.0) == []
    assert "is noisy" in noise(quiet, [1.0, 2.0, 3.0], 2.0)[0]
    assert "'draftscope calibrate --again'" in noise(quiet, [2.0, 2.0, 2.0], 1.0)[0]


# the command


def test_the_command_decides_and_writes_a_page(
    cli: Cli, pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    instead_of_loading(monkeypatch, pair)
    page = tmp_path / "advice.html"
    asked = ("--kind", "code", "--seconds", "2", "--length", "16", "--drafters", "draft,ngram", "--temperature", "1")
    done = cli(*asked, "--json", "--report", page)
    assert done.code == 0, done.err
    found = done.json
    assert found["verdict"] in [verdict.value for verdict in Verdict]
    assert {each["candidate"]["drafter"] for each in found["predicted"]} == {"draft", "ngram"}
    assert len(found["measured"]) == 1
    low = next(each for each in found["measured"] if each["name"] == found["chosen"]["name"])["ratio"]["low"]
    assert found["verdict"] != Verdict.ON or low > 1
    assert found["verdict"] != Verdict.OFF or found["ready"] == []
    text = page.read_text(encoding="utf-8")
    assert "Should it speculate?" in text and 'src="http' not in text and found["sentences"][0].split(":")[0] in text
    shown = cli(*asked, "--concurrency", "3", "--objective", "throughput", "--context", "40")
    assert shown.code == 0 and "at 3 concurrent requests" in shown.out and "predicted for the run" in shown.out


@pytest.mark.parametrize(
    ("asked", "others"),
    [
        (0.0, [1.0]),
        pytest.param(1.0, [0.0], marks=pytest.mark.slow),
        pytest.param(0.5, [0.0, 1.0], marks=pytest.mark.slow),
    ],
)
def test_a_clear_answer_is_asked_again_at_other_temperatures(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, asked: float, others: list[float]
) -> None:
    """A machine on which five runs are clear, whatever they say, and on which there is time for more."""
    seen: list[float] = []

    def clear(found: Sequence[Measured]) -> bool:
        return bool(found) and found[0].runs >= 5

    def decided(found: Sequence[Measured]) -> AdviceDecision:
        return AdviceDecision(Verdict.ON, found[0])

    def measured(question: Question, *rest: Any) -> list[Measured]:
        seen.append(question.temperature)
        return proved(question, *rest)

    proved = proof.measured
    monkeypatch.setattr("draftscope.advise.advise.clear", clear)
    monkeypatch.setattr("draftscope.advise.advise.decide", decided)
    monkeypatch.setattr("draftscope.advise.advise.proof.measured", measured)
    monkeypatch.setattr(Measured, "has_enough_runs", True)
    question = Question(length=12, seconds=120.0, temperature=asked)
    found = advise(pair, question, TEXTS, ["ngram"])
    assert [each.temperature for each in found.at_temperatures] == others
    assert list(dict.fromkeys(seen)) == [asked, *others]
    assert f"at temperature {asked:g}" in found.sentences[0]
    assert sum("It holds at temperature" in each for each in found.sentences) == len(others)
    assert [each["temperature"] for each in json.loads(found.as_json())["at_temperatures"]] == others


def test_a_chat_model_is_asked_questions_unless_prompts_are_given(
    cli: Cli, pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[dict[str, list[Prompt]]] = []

    def stop(_lab: DecodingEngine, _question: Question, prompts: dict[str, list[Prompt]], *_: object) -> None:
        asked.append(prompts)
        raise DraftscopeError("that is enough")

    instead_of_loading(monkeypatch, pair)
    monkeypatch.setattr("draftscope.advise.advise.advise", stop)
    monkeypatch.setattr("draftscope_app.cli.plans.chats", lambda engine: engine is pair)
    own = tmp_path / "own.jsonl"
    own.write_text('{"prompt": "mine", "kind": "code"}\n', encoding="utf-8")
    for arguments in (("--kind", "code"), ("--prompts", own)):
        assert "that is enough" in cli(*arguments).err
    questions = [prompt for prompt in shipped(chat=True) if prompt.kind == "code"]
    assert asked == [{"code": questions}, {"code": [Prompt("code", "mine")]}]


def test_without_a_trained_drafter_it_says_how_to_train_one(pair: DecodingEngine) -> None:
    alone = DecodingEngine(pair.target, None, pair.tokenizer)
    alone.calibration = made_calibration()
    question = Question(length=12, seconds=1.0, temperature=1.0)
    found = advise(alone, question, TEXTS, ["ngram"])
    assert any("draftscope train-drafter --target MODEL" in note for note in found.notes)
    assert found.chosen.candidate.drafter == "ngram"


def test_models_that_decode_one_sequence_refuse_several_readers(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DecodingEngine, "batches", False)
    with pytest.raises(DraftscopeError, match="concurrency = 2"):
        advise(pair, Question(concurrency=2), TEXTS, ["ngram"])


def test_one_prompt_says_what_it_cannot_tell(pair: DecodingEngine) -> None:
    found = advise(pair, Question(length=12, seconds=1.0, temperature=1.0), {"k": TEXTS["letters"][:1]}, ["ngram"])
    assert "does not tell how other texts would fare" in found.sentences[-1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--drafters", "nothing"), "nothing"),
        (("--kind", "nothing"), "nothing"),
        (("--objective", "cost"), "--price-per-hour"),
        (("--concurrency", "100"), "concurrency = 100"),
        (("--alpha", "1.4", "--c", ".1"), "alpha = 1.4"),
        (("--alpha", ".5,.6", "--unconditional", "--c", ".1"), "alpha rises"),
        (("--c", ".1"), "--alpha"),
        (("--alpha", ".5", "--v", "1.1"), "--v needs --c"),
        (("--alpha", ".5", "--c", ".1", "--concurrency", "4"), "concurrency = 4"),
        (("--alpha", ".5", "--c", "-1"), "c = -1"),
    ],
)
def test_bad_values_are_refused_before_a_model_is_loaded(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.setattr("draftscope_app.cli.command_options.load", lambda _: pytest.fail("a model was loaded"))
    done = cli(*arguments)
    assert done.code == 2 and words in done.err


LOG_LINE = "INFO 05-21 21:11:56 [loggers.py:271] Engine 000: Avg prompt throughput: 0.0 tokens/s\n"


@pytest.mark.parametrize(
    ("option", "content", "words"),
    [
        ("--prompts", None, "no such file or directory"),
        ("--prompts", "", "has no usable line. Give one JSON object a line"),
        ("--prompts", LOG_LINE, "line 1 is not JSON"),
        ("--prompts", '{"status": 200}\n', "line 1 has none of the fields"),
        ("--acceptance", None, "no such file or directory"),
        ("--acceptance", "", "give vLLM's /metrics page or log"),
        ("--acceptance", LOG_LINE, "give vLLM's /metrics page or log"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, option: str, content: str | None, words: str
) -> None:
    monkeypatch.setattr("draftscope_app.cli.command_options.load", lambda _: pytest.fail("a model was loaded"))
    file = tmp_path / "file"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    done = cli(option, file, *(("--c", ".1") if option == "--acceptance" else ()))
    assert done.code == 2 and words in done.err and done.err.count("\n") == 1 and done.out == ""


def test_prompts_that_loop_are_counted() -> None:
    def probed(*loops: bool) -> Probed:
        own = Probed(Candidate("plain"))
        own.ids = [[1, 2] * 20 if each else list(range(40)) for each in loops]
        return own

    assert _without_loops(probed(False, False)) == ([0, 1], [])
    kept, (said,) = _without_loops(probed(True, False, False))
    assert kept == [1, 2] and "Of the 3 prompts" in said and "1 does not count" in said
    kept, (said,) = _without_loops(probed(True, True))
    assert kept == [0, 1] and said.startswith("Plain decoding loops on every prompt") and "Use other prompts" in said


def test_typed_values_need_no_model(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("draftscope_app.cli.command_options.load", lambda _: pytest.fail("a model was loaded"))
    done = cli("--alpha", ".7,.42,.21", "--unconditional", "--c", ".1", "--report", tmp_path / "plan.html")
    assert done.code == 0 and done.out.startswith("Turn it on: draft, gamma 3: 1.7") and "modelled" in done.out
    assert "Nothing" not in (tmp_path / "plan.html").read_text(encoding="utf-8")


def test_typed_acceptance_with_this_machines_costs(
    cli: Cli, pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead_of_loading(monkeypatch, pair)
    done = cli("--alpha", ".8", "--concurrency", "4")
    assert done.code == 0 and "at 4 concurrent requests (modelled, not run)" in done.out


@pytest.mark.slow
def test_the_embedded_pair_end_to_end(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with draftscope.load(threads=1) as engine:
        engine.calibration = made_calibration()
        instead_of_loading(monkeypatch, engine)
        done = cli(
            "--kind", "structured", "--seconds", "3", "--length", "24", "--drafters", "draft,eagle3,ngram", "--json"
        )
    assert done.code == 0, done.err
    assert done.json["measured"] and done.json["sentences"] and done.json["machine"]["target"]


def test_a_drafters_head_is_the_one_that_it_needs(tiny: DecodingEngine) -> None:
    """Its name alone would not do: 'eagle3-tree' begins with 'eagle', and 'block-tree' is no kind of head."""
    assert "eagle" in tiny.heads
    for name, kind in (
        ("eagle3-tree", "eagle3"),
        ("eagle-tree", "eagle"),
        ("block-tree", "block"),
        ("dspark", "dspark"),
    ):
        assert _head_of(tiny, Candidate(name, 2)) is tiny.heads[kind]
    assert _head_of(tiny, Candidate("ngram", 2)) is None
