"""Tables: they count what the metrics count, tell what the distributions were, and come back from a file as they
went."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from draftscope import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.race import race
from draftscope.drafters.settings import Settings
from draftscope.trace import files, metrics, tables
from draftscope.trace.events import AnyEvent, RunStart
from draftscope.trace.result import Result
from tests.models.test_cache import fresh

DRAFTERS = ["plain", "draft", "sampled-tree", "topk-tree", "ngram"]
LANES = {"plain": Settings.of(drafter="plain"), "tree": Settings.of(drafter="sampled-tree", shape=(3, 2))}


@pytest.fixture(scope="module")
def recorded(pair: DecodingEngine) -> list[AnyEvent]:
    """Two races of two lanes each, their events interleaved, over bytes that are often no text."""
    events: list[AnyEvent] = []
    for run, temperature in (("first", 1.0), ("second", 0.0)):
        settings = {"temperature": temperature, "max_new_tokens": 40}
        lanes = [
            pair.start("hello", Settings.of(**lane.model_dump() | settings), run=run, lane=name)
            for name, lane in LANES.items()
        ]
        events += race(lanes)
    return events


# What the tables say.


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_tables_count_what_the_metrics_count(pair: DecodingEngine, drafter: str, temperature: float) -> None:
    assert_counts(pair.decode("abcabcabcabc", drafter, temperature=temperature, max_new_tokens=61, seed=5))


def test_what_was_accepted_and_then_cut_off_counts_nowhere(pair: DecodingEngine) -> None:
    """A target that drafts for itself is always right; here the second token of its second round ends the text."""
    engine = DecodingEngine(pair.target, pair.target, pair.tokenizer)
    engine.eos = frozenset()
    uncut = engine.decode("hello", gamma=4, temperature=1, max_new_tokens=12)
    engine.eos = frozenset({uncut.token_ids[6]})
    run = engine.decode("hello", gamma=4, temperature=1, max_new_tokens=12)
    assert [len(event.emitted) for event in run.round_events] == [5, 2]
    assert sum(node.fate == "accepted" for node in run.round_events[-1].nodes) == 4
    assert_counts(run)


def assert_counts(run: Result) -> None:
    tokens, rounds, decisions = (getattr(run, what) for what in tables.TABLES)
    counted = run.metrics
    assert tokens.token.tolist() == run.token_ids
    assert tokens["index"].tolist() == list(range(counted.tokens))
    assert len(rounds) == counted.target_forwards
    assert rounds.text.sum() == run.text
    assert (rounds.emitted.sum(), rounds.drafted.sum()) == (counted.tokens, counted.num_draft_tokens)
    accepted = counted.num_accepted_tokens
    assert (tokens.came == "accepted").sum() == rounds.accepted.sum() == decisions.accepted.sum() == accepted
    assert tokens.groupby("round").size().tolist() == rounds.emitted.tolist()
    assert (rounds.drafted > 0).sum() == counted.num_drafts
    assert rounds[["propose_ms", "verify_ms", "accept_ms", "commit_ms", "host_ms"]].sum().tolist() == pytest.approx(
        list(counted.stage_ms.values())
    )


def test_gaps_between_tokens_are_the_metrics_own(pair: DecodingEngine) -> None:
    run = pair.decode("hello", temperature=1, max_new_tokens=40)
    tokens, rounds = run.tokens, run.rounds
    gaps = tokens.gap_ms
    assert gaps.isna().tolist() == [index == 0 for index in range(len(gaps))]
    told = run.metrics.itl_ms
    assert np.percentile(gaps[1:], [50, 95, 99]).tolist() == pytest.approx([told.p50, told.p95, told.p99])
    assert tokens.arrival_ms.iloc[0] == run.metrics.ttft_ms
    assert tokens.arrival_ms.tolist() == rounds.end_ms.repeat(rounds.emitted).tolist()


@pytest.mark.parametrize("rule", ["block", "token"])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_p_and_q_of_a_token_are_the_models_own_distributions(tiny: DecodingEngine, drafter: str, rule: str) -> None:
    """Over five tokens, of which a trace shows all: p and q as each model gives them to the text so far."""
    run = tiny.decode("abcde", drafter, temperature=1, max_new_tokens=24, gamma=3, shape=(2, 2), rule=rule)
    tokens = run.tokens
    text = tiny.encode("abcde")
    for name, model in (("p", tiny.target), ("q", tiny.draft)):
        distributions = fresh(model, text + run.token_ids)[len(text) - 1 : -1].softmax(-1)
        want = distributions[torch.arange(len(tokens)), torch.tensor(run.token_ids)].tolist()
        known = tokens[name].notna()
        assert known.all() if name == "p" else known.any() == (drafter not in ("plain", "ngram"))
        assert tokens[name][known].tolist() == pytest.approx(np.array(want)[known].tolist(), abs=1e-5)
    drafted = tokens.came.isin(["accepted", "correction"]) & (drafter != "ngram")
    assert tokens.q.notna().tolist() == drafted.tolist()  # a bonus and a plain token stand where nobody drafted


@pytest.mark.parametrize("rule", ["block", "token"])
def test_decisions_hold_every_verified_child_in_order(tiny: DecodingEngine, rule: str) -> None:
    for drafter in ("draft", "sampled-tree", "ngram"):
        run = tiny.decode("abcabcabc", drafter, temperature=1, max_new_tokens=40, gamma=3, shape=(3, 2), rule=rule)
        table = run.decisions
        assert len(table) == sum(len(decision.children) for event in run.round_events for decision in event.decisions)
        uniforms = table[table.rule != "deterministic"]
        assert (uniforms.passed == (uniforms.uniform < uniforms.threshold)).all()
        assert (table.accepted <= (table.fate == "accepted")).all()
        drawn = table[table.rule == "deterministic"]
        assert (drawn.passed == (drawn.token == drawn.draw)).all()
        assert str(table.draw.dtype) == "Int64"  # an id, also where some rows have none
        first = table.groupby(["round", "decision"]).order
        assert (first.min() == 0).all() and (first.max() == first.size() - 1).all()
        assert (table.slot < table.node).all()


def test_lanes_and_runs_of_one_file_stand_apart(recorded: list[AnyEvent]) -> None:
    keys = ["run", "lane", "sequence"]
    starts = [(event.run, event.lane, event.sequence) for event in recorded if isinstance(event, RunStart)]
    for what in tables.TABLES:
        table = tables.frame(recorded, what)
        assert table[keys].drop_duplicates().agg(tuple, axis=1).tolist() == (
            starts if what != "decisions" else [start for start in starts if start[1] == "tree"]
        )
        for start in starts:
            own = [event for event in recorded if (event.run, event.lane, event.sequence) == start]
            rows = table[(table.run == start[0]) & (table.lane == start[1])].reset_index(drop=True)
            pd.testing.assert_frame_equal(rows, tables.frame(own, what))
            if what == "tokens":
                assert len(rows) == metrics.fold(own).tokens > 1


def test_bytes_that_are_no_text_are_spelt_out(recorded: list[AnyEvent]) -> None:
    tokens = tables.frame(recorded)
    spelt = tokens.text.str.fullmatch("‹[0-9A-F]{2}›")
    assert spelt.any() and not spelt.all()
    assert (
        tokens.text[~spelt].map(lambda text: len(text.encode())).isin([1, len("<|endoftext|>"), len("<|pad|>")]).all()
    )


def test_a_table_of_nothing_has_its_columns(recorded: list[AnyEvent]) -> None:
    for what in tables.TABLES:
        empty, full = tables.frame(recorded[:1], what), tables.frame(recorded, what)
        assert len(empty) == 0 < len(full)
        assert empty.dtypes.to_dict() == full.dtypes.to_dict()


def test_a_table_that_cannot_be_made_is_one_sentence(pair: DecodingEngine) -> None:
    with pytest.raises(DraftscopeError, match="what = 'words': choose tokens, rounds, decisions"):
        pair.decode("hello", max_new_tokens=2).export("run.csv", "words")
    with pytest.raises(DraftscopeError, match="decode it with record=True"):
        assert pair.decode("hello", max_new_tokens=2, record=False).tokens.size


# Files.


def reread(file: Path, like: pd.DataFrame) -> pd.DataFrame:
    """As a stranger would read it, but told which columns are text: 'NA' may be a token."""
    if file.suffix == ".parquet":
        return pd.read_parquet(file)
    if file.suffix == ".jsonl":
        return pd.read_json(file, lines=True, dtype=False, precise_float=True).astype(like.dtypes.to_dict())
    texts = {name: "string" for name, kind in like.dtypes.items() if kind == "string"}
    missing = {name: [""] for name in like.columns if name != "text"}
    return pd.read_csv(
        file, dtype=texts, keep_default_na=False, na_values=missing, float_precision="round_trip", lineterminator="\n"
    ).astype(like.dtypes.to_dict())


@pytest.mark.parametrize("suffix", tables.FORMATS)
@pytest.mark.parametrize("what", tables.TABLES)
def test_a_table_comes_back_from_its_file(recorded: list[AnyEvent], tmp_path: Path, what: str, suffix: str) -> None:
    table = tables.frame(recorded, what)
    file = tmp_path / "new folder" / f"table{suffix}"
    tables.write(table, file)
    pd.testing.assert_frame_equal(reread(file, table), table, check_exact=True)


@pytest.mark.parametrize("suffix", tables.FORMATS)
def test_awkward_texts_survive(pair: DecodingEngine, tmp_path: Path, suffix: str) -> None:
    table = pair.decode("hello", max_new_tokens=8).tokens
    table["text"] = pd.Series(["NA", 'a"b', "a,b", "a\nb", "a\r\nb", "\r", "‹E2›", "é\u2028"], dtype="string")
    tables.write(table, tmp_path / f"table{suffix}")
    assert reread(tmp_path / f"table{suffix}", table).text.tolist() == table.text.tolist()


def test_a_file_that_cannot_be_written_is_one_sentence(recorded: list[AnyEvent], tmp_path: Path) -> None:
    table = tables.frame(recorded)
    for name in ("run.xlsx", "run", "run.csv.gz"):
        with pytest.raises(DraftscopeError, match=r"name a file that ends in \.csv, \.parquet, \.jsonl\."):
            tables.write(table, tmp_path / name)
    (tmp_path / "folder.csv").mkdir()
    for name in ("folder.csv", "/dev/null/x.csv"):
        with pytest.raises(DraftscopeError, match=r"cannot be written .*; choose another file"):
            tables.write(table, tmp_path / name)


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tables, "find_spec", lambda _: None)
    tables.refuse_format(tmp_path / "a.csv")
    with pytest.raises(DraftscopeError, match=r"Parquet needs pyarrow; install it with: pip install 'draftscope\[exp"):
        tables.refuse_format(tmp_path / "a.parquet")


def test_a_trace_gives_the_tables_of_its_run(pair: DecodingEngine, tmp_path: Path) -> None:
    run = pair.decode("hello", temperature=1, max_new_tokens=24)
    files.write(tmp_path / "run.jsonl.gz", run.events)
    again = files.read(tmp_path / "run.jsonl.gz").events
    for what in tables.TABLES:
        pd.testing.assert_frame_equal(tables.frame(again, what), getattr(run, what))
