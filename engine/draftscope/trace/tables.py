"""A trace as pandas tables: a row for each emitted token, each round, or each verified child.

The events may be of any number of runs and lanes; a server's burst counts as a round. Times are milliseconds on the
lane's own clock. Values that the trace does not contain are missing (NaN or NA). Imports no torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftscope.base.errors import DraftscopeError, one_sentence
from draftscope.trace.events import AnyEvent, Burst, Distributions, DraftProbs, Round, RunStart, TargetProbs, Verified
from draftscope.trace.metrics import Metrics

if TYPE_CHECKING:
    import pandas as pd

TableRow = dict[str, Any]


@dataclass
class RoundTable:
    """A lane's rounds, or a server's bursts with the probabilities that were computed for its tokens."""

    events: list[Round | Burst] = field(default_factory=list)
    p: list[float] = field(default_factory=list)
    q: list[float] = field(default_factory=list)
    labels: TableRow = field(default_factory=dict)


KEYS = {"run": "string", "lane": "string", "sequence": "int64", "round": "int64"}

LABELS = {  # of the whole run: the last columns of every table
    "drafter": "string",
    "seed": "Int64",
    "temperature": "float64",
    "gamma": "Int64",  # missing for a drafter without one
    "prompt": "string",
}

TOKENS = (
    KEYS
    | {
        "index": "int64",  # in the lane's text, from 0
        "token": "int64",
        "text": "string",  # a token that is not valid UTF-8 is written as its bytes, ‹E2 80›
        "came": "string",  # accepted, correction, bonus or plain
        "depth": "int64",  # within its round, from 1
        # under the target's distribution at its place (greedy: softmax of the logits), if the trace shows it
        "p": "float64",
        "q": "float64",  # under the distribution that was drafted from at its place
        "arrival_ms": "float64",  # end of its round
        "gap_ms": "float64",  # since the previous token: 0 within a round, missing for the first
    }
    | LABELS
)

ROUNDS = (
    KEYS
    | {
        "width": "int64",  # rows of the target's forward
        "drafted": "int64",  # without never-accepted nodes
        "accepted": "int64",  # accepted and emitted
        "emitted": "int64",  # including the target's own token
        "depth": "int64",  # of the deepest drafted node
        "last": "string",  # kind of the target's own token: correction, bonus or plain
        "cut": "string",  # eos, stop or length if the text ended in this round
        "text": "string",  # what it added to the text
        "start_ms": "float64",
        "end_ms": "float64",
        "propose_ms": "float64",
        "verify_ms": "float64",
        "accept_ms": "float64",
        "commit_ms": "float64",
        "host_ms": "float64",
    }
    | LABELS
)

DECISIONS = (
    KEYS
    | {
        "decision": "int64",  # within its round, from 0
        "slot": "int64",  # the node whose children are verified; -1 is the last committed token
        "rule": "string",
        "order": "int64",  # among the verified children of that slot, from 0
        "node": "int64",
        "depth": "int64",
        "token": "int64",
        "text": "string",
        "p": "float64",  # of its token, under the distributions that verified it
        "q": "float64",
        "threshold": "float64",  # the uniform was compared with it; missing if the rule has none
        "uniform": "float64",
        "weight": "float64",  # block verification: joint ratio of the prefix
        "draw": "Int64",  # the target's own token there, for deterministic children
        "draw_uniform": "float64",
        "logit_gap": "float64",  # greedy: top-1 minus top-2 logit
        "passed": "bool",  # the result of this comparison
        "fate": "string",  # of the node at the end of the round
        "accepted": "bool",  # accepted and emitted
    }
    | LABELS
)

RUNS = {"run": "string", "lane": "string"} | LABELS | {
    "tokens": "int64",
    "target_forwards": "int64",
    "tokens_per_round": "float64",
    "draft_acceptance_rate": "float64",
    "tokens_per_s": "float64",
    "ttft_ms": "float64",
    "text": "string",
}  # fmt: skip


def frame(events: Iterable[AnyEvent], what: str = "tokens") -> pd.DataFrame:
    """One table of `events`: `tokens`, `rounds` or `decisions`, lane after lane, with the columns declared above.

    Raises `DraftscopeError` for an unknown table.
    """
    import pandas as pd

    if what not in TABLES:
        raise DraftscopeError(f"what = '{what}': choose {', '.join(TABLES)}.")
    rows, columns = TABLES[what]
    records = [row | rounds.labels for rounds in _lanes(events) for row in rows(rounds)]
    table = pd.DataFrame(records, columns=list(columns))
    lacking = {name for name in columns if table[name].isna().any()}  # a server does not say what it drafted
    kinds = {name: "Int64" if kind == "int64" and name in lacking else kind for name, kind in columns.items()}
    typed: pd.DataFrame = table.astype(kinds)
    return typed


def runs(finished: Iterable[tuple[RunStart, Metrics, str]]) -> pd.DataFrame:
    """A row for each run: where it began, its metrics and its text; its columns are `RUNS`."""
    import pandas as pd

    rows = [
        {"run": start.run, "lane": start.lane, "text": text} | _labels(start) | counts.model_dump(include=set(RUNS))
        for start, counts, text in finished
    ]
    table: pd.DataFrame = pd.DataFrame(rows, columns=list(RUNS)).astype(RUNS)
    return table


def _lanes(events: Iterable[AnyEvent]) -> Iterable[RoundTable]:
    """The rounds of each lane, in the order in which the lanes started."""
    lanes: dict[tuple[str, str, int], RoundTable] = {}
    for event in events:
        rounds = lanes.setdefault((event.run, event.lane, event.sequence), RoundTable())
        if isinstance(event, RunStart):
            rounds.labels = _labels(event)
        elif isinstance(event, Round | Burst):
            rounds.events.append(event)
        elif isinstance(event, TargetProbs):
            rounds.p = event.p
        elif isinstance(event, DraftProbs):
            rounds.q = event.q
    return lanes.values()


def _labels(start: RunStart) -> TableRow:
    given = start.settings
    named = {"drafter": start.drafter, "prompt": start.prompt, "seed": start.seed}
    return named | {"temperature": given.get("temperature"), "gamma": given.get("gamma")}


def _keys(event: Round | Burst) -> TableRow:
    return {name: getattr(event, name) for name in KEYS}


def _text(raw: str) -> str:
    """A token's text, or its bytes if they are not valid UTF-8."""
    token = raw.encode("latin-1")
    try:
        return token.decode()
    except UnicodeDecodeError:
        return f"‹{token.hex(' ').upper()}›"


# Tokens.


def _tokens(rounds: RoundTable) -> Iterator[TableRow]:
    index, before = 0, float("nan")
    for event in rounds.events:
        for place, (token, raw) in enumerate(zip(event.emitted, event.emitted_raw, strict=True)):
            arrival = {"index": index, "token": token, "text": _text(raw), "depth": place + 1, "arrival_ms": event.end}
            if isinstance(event, Round):
                origin = _origin(event, place)
            else:
                origin = {name: values[index] for name, values in (("p", rounds.p), ("q", rounds.q)) if values}
            yield _keys(event) | arrival | origin | {"gap_ms": event.end - before}
            index, before = index + 1, event.end


def _origin(event: Round, place: int) -> TableRow:
    """The kind of the token at `place` of a round, and its probabilities before any rejection."""
    if place < event.accepted:
        node = next(node for node in event.nodes if node.fate == "accepted" and node.depth == place + 1)
        return {"came": "accepted", "p": node.p, "q": node.q}
    last = event.last
    decision = next((decision for decision in event.decisions if decision.slot == last.slot), None)
    distributions = decision.distributions[0] if decision is not None else last.distributions
    return {"came": last.kind} | _probabilities(distributions, last.token)


def _probabilities(distributions: Distributions | None, token: int) -> TableRow:
    if distributions is None or token not in distributions.ids:
        return {}
    at = distributions.ids.index(token)
    return {"p": distributions.p[at], "q": None if distributions.q is None else distributions.q[at]}


# Rounds.


def _rounds(rounds: RoundTable) -> Iterator[TableRow]:
    for event in rounds.events:
        times = {"start_ms": event.start, "end_ms": event.end}
        columns: TableRow = {"emitted": len(event.emitted), "text": event.text_delta}
        if isinstance(event, Burst):
            yield _keys(event) | columns | times
            continue
        counts = {name: getattr(event, name) for name in ("width", "drafted", "accepted", "depth", "cut")}
        stages = {f"{name}_ms": getattr(event.timings, name) for name in ("verify", "accept", "commit", "host")}
        stages["propose_ms"] = sum(event.timings.propose)
        yield _keys(event) | counts | columns | {"last": event.last.kind} | stages | times


# Decisions.


def _decisions(rounds: RoundTable) -> Iterator[TableRow]:
    for event in (event for event in rounds.events if isinstance(event, Round)):
        for number, decision in enumerate(event.decisions):
            for order, child in enumerate(decision.children):
                decided = {"decision": number, "slot": decision.slot, "rule": decision.rule, "order": order}
                drawn = {"draw": decision.draw, "draw_uniform": decision.uniform, "logit_gap": decision.gap}
                yield _keys(event) | decided | drawn | _verified(event, child)


def _verified(event: Round, child: Verified) -> TableRow:
    node = event.nodes[child.node]
    stands = node.fate == "accepted" and node.depth <= event.accepted
    token = {"depth": node.depth, "token": node.token, "text": _text(node.raw), "fate": node.fate, "accepted": stands}
    return child.model_dump() | token


TABLES: Mapping[str, tuple[Callable[[RoundTable], Iterator[TableRow]], Mapping[str, str]]] = {
    "tokens": (_tokens, TOKENS),
    "rounds": (_rounds, ROUNDS),
    "decisions": (_decisions, DECISIONS),
}


# Files.


def write(table: pd.DataFrame, path: str | Path) -> None:
    """Writes a table in the format of the file name: .csv, .parquet or .jsonl (one JSON object a line)."""
    path = Path(path)
    refuse_format(path)
    with one_sentence(f"'{path}' cannot be written", "choose another file"):
        path.parent.mkdir(parents=True, exist_ok=True)
        FORMATS[path.suffix](table, path)


def refuse_format(path: str | Path) -> None:
    """Raises `DraftscopeError` for a file name without a known format, or a format that needs another package."""
    suffix = Path(path).suffix
    if suffix not in FORMATS:
        raise DraftscopeError(f"'{path}': name a file that ends in {', '.join(FORMATS)}.")
    if suffix == ".parquet" and find_spec("pyarrow") is None:
        raise DraftscopeError("Parquet needs pyarrow; install it with: pip install 'draftscope[export]'")


def _write_json_lines(table: pd.DataFrame, path: Path) -> None:
    """Not by pandas, which would round numbers. Missing values become null."""
    with path.open("w", encoding="utf-8") as file:
        for row in table.astype(object).where(table.notna(), None).to_dict("records"):
            file.write(json.dumps(row, allow_nan=False) + "\n")


FORMATS: Mapping[str, Callable[[pd.DataFrame, Path], None]] = {
    ".csv": lambda table, path: table.to_csv(path, index=False, lineterminator="\n"),
    ".parquet": lambda table, path: table.to_parquet(path, index=False),
    ".jsonl": _write_json_lines,
}
