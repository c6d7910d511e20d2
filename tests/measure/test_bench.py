"""The benchmark runs what it says in the order it says, and never asserts a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.base.markdown import one_line
from draftscope.base.prompts import Prompt
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters import TextDraftModel
from draftscope.measure.bench.bench_plan import QUICK, BenchPlan
from draftscope.measure.bench.benchmark import benchmark, save
from draftscope.measure.bench.cases import cases
from draftscope.measure.bench.limit import memory_limit
from draftscope.measure.bench.report import BenchReport, markdown
from draftscope.measure.bench.rows import BenchRow
from draftscope.measure.bench.runner import Bench
from draftscope.measure.bench.systems import OWN, PLAIN, Case, Label, System, Write, WrittenBatch, drafter_systems
from draftscope.models.native.available import instructions
from draftscope.models.probe import probed
from tests.support.models import byte_tokenizer, random_llama

TEXTS = {"story": [Prompt("story", "Once"), Prompt("story", "There was")], "code": [Prompt("code", "def f(")]}
SMALL = BenchPlan(gammas=(2,), temperatures=(0.0,), tokens=5, repeats=2)


class Scripted(System):
    """Writes what it is told, and writes down when it was asked."""

    def __init__(self, name: str, log: list[tuple[str, str, int]], write: Callable[[Case, int], Sequence[int]]) -> None:
        self.label = PLAIN if name == "plain" else Label(name)
        self._log, self._write = log, write

    def prepare(self, case: Case, tokens: int, seed: int) -> Write:
        def write() -> WrittenBatch:
            self._log.append((self.label.name, case.kind, seed))
            return WrittenBatch([list(self._write(case, tokens))] * case.batch)

        return write


def counting(case: Case, tokens: int) -> Sequence[int]:
    return range(tokens)


def case_of(kind: str, temperature: float = 0.0) -> Case:
    return Case(kind, 0, ((1, 2),), temperature)


@pytest.fixture(scope="module")
def report(pair: DecodingEngine) -> BenchReport:
    return benchmark(pair, SMALL, TEXTS)


def row(report: BenchReport, name: str, kind: str = "story") -> BenchRow:
    return next(row for row in report.rows if (row.name, row.kind) == (name, kind))


# order


def test_systems_alternate_within_every_repeat_and_the_warm_up_is_not_counted() -> None:
    log: list[tuple[str, str, int]] = []
    bench = Bench(SMALL, [Scripted(name, log, counting) for name in ("plain", "a", "b")], [case_of("x"), case_of("y")])
    runs = bench.runs()
    one_pass = [(name, kind) for kind in ("x", "y") for name in ("plain", "a", "b")]
    assert [(name, kind) for name, kind, _ in log] == 3 * one_pass  # a warm-up and two repeats
    assert [(run.label.name, run.case.kind) for run in runs] == 2 * one_pass
    assert {run.repeat for run in runs} == {0, 1}


def test_every_repeat_has_a_seed_of_its_own() -> None:
    log: list[tuple[str, str, int]] = []
    Bench(SMALL, [Scripted("plain", log, counting)], [case_of("x", 1.0)]).runs()
    assert [seed for _, _, seed in log] == [0, 1, 2]


def test_a_system_that_fails_is_named_and_the_others_go_on() -> None:
    def fail(case: Case, tokens: int) -> Sequence[int]:
        if case.temperature > 0:
            raise RuntimeError("no\nroom")
        return range(tokens)

    log: list[tuple[str, str, int]] = []
    systems = [Scripted("plain", log, counting), Scripted("bad", log, fail), Scripted("good", log, counting)]
    bench = Bench(SMALL, systems, [case_of("x", 0.0), case_of("x", 1.0)])
    runs = bench.runs()
    assert bench.notes == ["bad was skipped at T = 1: RuntimeError: no room."]
    assert [run.case.temperature for run in runs if run.label.name == "bad"] == [0.0, 0.0]
    assert sum(run.label.name == "good" for run in runs) == 4


def test_without_plain_a_cell_says_nothing() -> None:
    def fail(case: Case, tokens: int) -> Sequence[int]:
        raise MemoryError("no room")

    log: list[tuple[str, str, int]] = []
    bench = Bench(SMALL, [Scripted("plain", log, fail), Scripted("a", log, counting)], [case_of("x")])
    with pytest.raises(
        DraftscopeError, match=r"Nothing was measured. plain was skipped at T = 0: MemoryError: no room"
    ):
        bench.runs()
    assert [name for name, _, _ in log] == ["plain"]


def test_a_system_that_writes_too_little_is_left_out() -> None:
    def short(case: Case, tokens: int) -> Sequence[int]:
        return range(tokens - 1)

    log: list[tuple[str, str, int]] = []
    bench = Bench(SMALL, [Scripted("plain", log, counting), Scripted("short", log, short)], [case_of("x")])
    assert {run.label.name for run in bench.runs()} == {"plain"}
    assert f"wrote [{SMALL.tokens - 1}] tokens instead of 1 times {SMALL.tokens}" in bench.notes[0]


def test_a_deadline_ends_the_repeats_between_two_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr("draftscope.measure.bench.runner.perf_counter", lambda: next(clock))
    log: list[tuple[str, str, int]] = []
    plan = BenchPlan(tokens=8, repeats=50, seconds=20.0)
    bench = Bench(plan, [Scripted("plain", log, counting), Scripted("a", log, counting)], [case_of("x"), case_of("y")])
    runs = bench.runs()
    assert 2 <= len(runs) < 100
    assert len(runs) % 2 == 0  # whole groups
    (note,) = bench.notes
    assert note.startswith("Stopped after 20 s, in repeat")


# cases


def test_a_batch_goes_on_with_the_other_prompts_of_its_kind(pair: DecodingEngine) -> None:
    found, _ = cases(pair, BenchPlan(temperatures=(0.0,), batches=(1, 3), tokens=4), TEXTS)
    first, second = (tuple(pair.encode(prompt.text)) for prompt in TEXTS["story"])
    batches = {(case.kind, case.number, case.batch): case.prompts for case in found}
    assert batches["story", 0, 3] == (first, second, first)
    assert batches["story", 1, 3] == (second, first, second)
    assert batches["story", 1, 1] == (second,)
    assert len(set(batches["code", 0, 3])) == 1


def test_a_context_is_exactly_as_long_as_asked_and_ends_as_the_prompt_does(pair: DecodingEngine) -> None:
    found, _ = cases(pair, BenchPlan(temperatures=(0.0,), contexts=(3, 50), tokens=4), TEXTS)
    prompt = tuple(pair.encode("There was"))
    texts = {case.context: case.prompts[0] for case in found if (case.kind, case.number) == ("story", 1)}
    assert texts[3] == prompt[-3:]
    assert len(texts[50]) == 50
    assert texts[50][-len(prompt) :] == prompt


def test_a_prompt_that_the_models_cannot_read_is_named_and_the_rest_goes_on(pair: DecodingEngine) -> None:
    texts = {"story": [Prompt("story", "word " * 500), Prompt("story", "Once")]}
    found, notes = cases(pair, BenchPlan(temperatures=(0.0,), tokens=4), texts)
    assert [case.prompts[0] for case in found] == [tuple(pair.encode("Once"))]
    assert notes[0].startswith("Prompt 1 of 'story' was skipped: The prompt has ")
    with pytest.raises(DraftscopeError, match="No prompt can be used"):
        cases(pair, BenchPlan(tokens=4), {"story": texts["story"][:1]})


def test_a_context_beyond_the_models_is_one_sentence(pair: DecodingEngine) -> None:
    with pytest.raises(DraftscopeError, match=r"context = 417: .* more than the 512 .* choose at most 416"):
        cases(pair, BenchPlan(contexts=(417,)), TEXTS)
    assert len(cases(pair, BenchPlan(contexts=(416,), temperatures=(0.0,)), TEXTS)[0][0].prompts[0]) == 416


# the whole


def test_every_system_is_a_row_for_each_kind_and_greedy_ones_write_plains_tokens(report: BenchReport) -> None:
    names = {"plain", "draft, gamma 2", "ngram, gamma 2", "sampled-tree 2,1,1", "topk-tree 2,2,1"}
    peers = {"transformers-generate", "transformers-assisted", "transformers-prompt-lookup"}
    assert {row.name for row in report.rows} >= names | peers
    assert {row.kind for row in report.rows} == {"story", "code"}
    assert all(row.tokens_vs_plain == "equal" for row in report.rows)
    assert all(row.drafter == "" for row in report.rows if row.system != OWN)
    assert row(report, "draft, gamma 2").runs == 4  # two prompts, two repeats
    assert row(report, "draft, gamma 2", "code").runs == 2
    plain = row(report, "plain")
    assert (plain.ratio_to_plain.low, plain.ratio_to_plain.median, plain.ratio_to_plain.high) == (1, 1, 1)
    assert plain.predicted_ratio == pytest.approx(1)


def test_our_rows_say_what_only_our_rounds_tell(report: BenchReport) -> None:
    ours, peer = row(report, "draft, gamma 2"), row(report, "transformers-generate")
    assert ours.mean_acceptance_length is not None
    assert 1 <= ours.mean_acceptance_length <= 3
    assert len(ours.ms_per_token) == SMALL.tokens
    assert ours.predicted_ratio is not None
    assert (peer.mean_acceptance_length, peer.predicted_ratio, peer.cache_bytes) == (None, None, None)


def test_the_cache_is_counted_in_every_model_that_takes_part(report: BenchReport) -> None:
    slots = len("There was") + SMALL.tokens
    target, draft = 2 * 2 * 2 * 8 * 4, 2 * 1 * 2 * 4 * 4  # keys and values, layers, KV heads, width, bytes
    assert {row.cache_bytes for row in report.rows if row.name == "plain" and row.kind == "story"} <= {
        (len("Once") + SMALL.tokens) * target,
        slots * target,
    }
    assert row(report, "draft, gamma 2", "code").cache_bytes == (len("def f(") + SMALL.tokens) * (target + draft)


def test_plain_decoding_is_set_beside_the_memory_limit(report: BenchReport, pair: DecodingEngine) -> None:
    limit = report.limit
    assert limit is not None
    network = pair.target.network
    every_weight = sum(each.nbytes for each in (*network.parameters(), *network.buffers()))
    assert limit.weight_bytes == every_weight - network.get_input_embeddings().weight.nbytes  # one row of it is read
    assert limit.cache_bytes == pair.target.kept_bytes(limit.context)
    assert limit.tokens_per_s == limit.copied_per_s / (limit.weight_bytes + limit.cache_bytes)
    assert limit.verify[1] == 1
    shown = one_line(markdown(report))
    assert "Plain decoding beside the memory limit." in shown
    assert "| n | 1 | 2 | 3 | 4 | 5 | 6 | 8 | 12 | 16 |" in shown


def test_a_tied_head_is_read_whole(pair: DecodingEngine) -> None:
    network = random_llama(7, 50)
    network.lm_head.weight = network.model.embed_tokens.weight
    limit = memory_limit(probed(network, "tied"), 8)
    assert limit is not None
    assert limit.weight_bytes == sum(each.nbytes for each in (*network.parameters(), *network.buffers()))
    assert memory_limit(pair.target, pair.target.context) is None  # no room for 16 rows


def test_files_hold_the_contract_and_the_tables(report: BenchReport, tmp_path: Path) -> None:
    text = save(report, tmp_path / "new" / "folder")
    saved = json.loads((tmp_path / "new" / "folder" / "bench.json").read_text())
    contract = {"system", "drafter", "kind", "temperature", "batch", "tokens_per_s", "ratio_to_plain"}
    assert saved["rows"][0].keys() >= contract | {"mean_acceptance_length", "predicted_ratio", "tokens_vs_plain"}
    assert saved["rows"][0]["ratio_to_plain"].keys() == {"median", "low", "high"}
    assert saved["plan"]["repeats"] == 2
    assert "after one warm-up pass" in text
    assert instructions() and saved["machine"]["instructions"] == instructions()
    assert f"instructions {instructions()}, " in text
    assert "| transformers-generate |" in one_line(text)
    assert (tmp_path / "new" / "folder" / "bench.md").read_text() == text


def test_a_repeated_prompt_finds_no_index_of_the_run_before(pair: DecodingEngine) -> None:
    plan = BenchPlan(drafters=("ngram",), gammas=(4,), temperatures=(0.0,), tokens=24, repeats=3, peers=False)
    todo, _ = cases(pair, plan, {"code": TEXTS["code"]})
    runs = [run for run in Bench(plan, drafter_systems(pair, plan)[0], todo).runs() if run.label != PLAIN]
    assert {len(run.rounds.width) for run in runs if run.rounds} == {len(runs[0].rounds.width) if runs[0].rounds else 0}


def test_larger_batches_have_rows_of_their_own_and_say_who_cannot(pair: DecodingEngine) -> None:
    plan = BenchPlan(drafters=("draft",), gammas=(2,), temperatures=(0.0,), batches=(1, 3), tokens=6, repeats=1)
    report = benchmark(pair, plan, TEXTS)
    batched = {row.name for row in report.rows if row.batch == 3}
    assert batched == {"plain", "draft, gamma 2", "transformers-generate"}
    assert all(row.tokens_vs_plain == "equal" for row in report.rows)
    (note,) = [note for note in report.notes if "larger batches were skipped" in note]
    assert note.startswith("transformers-assisted, ")
    assert note.endswith("decode one sequence at a time, so larger batches were skipped for them.")


def test_sampled_runs_of_two_repeats_differ_and_say_sampled(pair: DecodingEngine) -> None:
    plan = BenchPlan(drafters=("plain",), temperatures=(1.0,), tokens=12, repeats=2, peers=False)
    todo, _ = cases(pair, plan, {"code": TEXTS["code"]})
    first, second = Bench(plan, drafter_systems(pair, plan)[0], todo).runs()
    assert first.ids != second.ids
    report = benchmark(pair, plan, TEXTS)
    assert {(row.tokens_vs_plain, row.equal_runs) for row in report.rows} == {("sampled", None)}


def test_a_pair_without_a_draft_measures_the_rest(pair: DecodingEngine) -> None:
    alone = DecodingEngine(pair.target, None, pair.tokenizer)
    report = benchmark(alone, SMALL, {"code": TEXTS["code"]})
    assert {row.name for row in report.rows} >= {"plain", "ngram, gamma 2", "transformers-prompt-lookup"}
    (note,) = [note for note in report.notes if note.startswith("Drafters left out: ")]
    assert "draft (no draft model is loaded), " in note


# the plan


def test_quick_is_small_and_has_a_deadline() -> None:
    assert QUICK.seconds is not None
    assert QUICK.seconds < 300
    assert (QUICK.gammas, QUICK.prompts_per_kind) == ((4,), 1)
    assert set(QUICK.temperatures) == {0.0, 1.0}


def test_without_a_plan_what_is_synthetic_stays_out(pair: DecodingEngine) -> None:
    systems, _ = drafter_systems(pair, QUICK)
    drafters = {system.label.drafter for system in systems}
    assert {"plain", "draft", "eagle3"} <= drafters
    assert not drafters & {"oracle", "slem", "tli"}


def test_who_drafts_through_text_is_measured_where_the_draft_has_a_tokenizer_of_its_own(pair: DecodingEngine) -> None:
    foreign = DecodingEngine(pair.target, None, pair.tokenizer, foreign=TextDraftModel(pair.draft, byte_tokenizer()))
    systems, notes = drafter_systems(foreign, QUICK)
    assert {system.label.drafter for system in systems} >= {"plain", "slem", "tli", "ngram"}
    assert "draft (the draft has another tokenizer)" in notes[0]
    case = Case("story", 0, ((3, 4, 5),), 0.0)
    sizes = {system.label.drafter: system.prepare(case, 4, 0)().cache_bytes for system in systems}
    assert sizes["slem"] is None and sizes["ngram"] == pair.target.kept_bytes(3 + 4)
    asked, _ = drafter_systems(pair, replace(QUICK, drafters=("slem",)))
    assert [system.label.drafter for system in asked] == ["plain", "slem"]
