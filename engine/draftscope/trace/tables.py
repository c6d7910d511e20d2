"""Tables of what was recorded, as pandas frames: a row for each emitted token, each round, each verified child.

Pure folds of a trace's events, any number of runs and lanes at once. Times are milliseconds on the lane's own clock;
what a trace does not tell is missing (NaN or NA). Imports no torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftscope.base.errors import DraftscopeError
from draftscope.trace.events import AnyEvent, Distributions, Round, Verified

if TYPE_CHECKING:
    import pandas as pd

TableRow = dict[str, Any]
Rounds = list[Round]  # of one lane

KEYS = {"run": "string", "lane": "string", "sequence": "int64", "round": "int64"}

TOKENS = KEYS | {
    "index": "int64",  # in the lane's text, from 0
    "token": "int64",
    "text": "string",  # bytes that are no UTF-8 by themselves are spelt out, ‹E2 80›
    "came": "string",  # accepted, correction, bonus or plain
    "depth": "int64",  # within its round, from 1
    # under the target's distribution at its place (greedy: softmax of the logits), where the trace shows it
    "p": "float64",
    "q": "float64",  # under the distribution that was drafted from there
    "arrival_ms": "float64",  # end of its round
    "gap_ms": "float64",  # since the token before: 0 within a round, missing for the first
}

ROUNDS = KEYS | {
    "width": "int64",  # rows in the target's one forward
    "drafted": "int64",  # never-accepted nodes left out
    "accepted": "int64",  # accepted and emitted
    "emitted": "int64",  # the target's own token included
    "depth": "int64",  # of the deepest drafted node
    "last": "string",  # how the target's own token came: correction, bonus or plain
    "cut": "string",  # eos, stop or length where the text ended in this round
    "text": "string",  # what it added to the text
    "start_ms": "float64",
    "end_ms": "float64",
    "propose_ms": "float64",
    "verify_ms": "float64",
    "accept_ms": "float64",
    "commit_ms": "float64",
    "host_ms": "float64",
}

DECISIONS = KEYS | {
    "decision": "int64",  # within its round, from 0
    "slot": "int64",  # the node whose children are verified, -1 for the last committed token
    "rule": "string",
    "order": "int64",  # among the verified children of that slot, from 0
    "node": "int64",
    "depth": "int64",
    "token": "int64",
    "text": "string",
    "p": "float64",  # of its token, under the distributions that it faced
    "q": "float64",
    "threshold": "float64",  # what the uniform was compared with; both missing where none was tossed
    "uniform": "float64",
    "weight": "float64",  # block verification's running joint ratio
    "draw": "Int64",  # the target's own token there, for deterministic children
    "draw_uniform": "float64",
    "logit_gap": "float64",  # greedy: the two best logits' distance
    "passed": "bool",  # the uniform's own result
    "fate": "string",  # of the node, when the round was over
    "accepted": "bool",  # accepted and emitted
}


def frame(events: Iterable[AnyEvent], what: str = "tokens") -> pd.DataFrame:
    """One table of `events`: `tokens`, `rounds` or `decisions`, lane after lane. Columns are as declared above.

    Raises `DraftscopeError` for another table, or where pandas is not installed.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise DraftscopeError("Tables need pandas; install it with: pip install 'draftscope[export]'") from None
    if what not in TABLES:
        raise DraftscopeError(f"what = '{what}': choose {', '.join(TABLES)}.")
    rows, columns = TABLES[what]
    found = [row for rounds in _lanes(events) for row in rows(rounds)]
    return pd.DataFrame(found, columns=list(columns)).astype(dict(columns))


def _lanes(events: Iterable[AnyEvent]) -> Iterable[Rounds]:
    """The rounds of each lane, lanes in the order in which they started."""
    lanes: dict[tuple[str, str, int], Rounds] = {}
    for event in events:
        rounds = lanes.setdefault((event.run, event.lane, event.sequence), [])
        if isinstance(event, Round):
            rounds.append(event)
    return lanes.values()


def _keys(event: Round) -> TableRow:
    return {name: getattr(event, name) for name in KEYS}


def _text(raw: str) -> str:
    """A token's bytes as text, or spelt out where they are none by themselves."""
    token = raw.encode("latin-1")
    try:
        return token.decode()
    except UnicodeDecodeError:
        return f"‹{token.hex(' ').upper()}›"


# Tokens.


def _tokens(rounds: Rounds) -> Iterator[TableRow]:
    index, before = 0, float("nan")
    for event in rounds:
        for place, (token, raw) in enumerate(zip(event.emitted, event.emitted_raw, strict=True)):
            own = {"index": index, "token": token, "text": _text(raw), "depth": place + 1, "arrival_ms": event.end}
            yield _keys(event) | own | _origin(event, place) | {"gap_ms": event.end - before}
            index, before = index + 1, event.end


def _origin(event: Round, place: int) -> TableRow:
    """How the token at `place` of a round came, and what both distributions said of it before anything was rejected."""
    if place < event.accepted:
        node = next(node for node in event.nodes if node.fate == "accepted" and node.depth == place + 1)
        return {"came": "accepted", "p": node.p, "q": node.q}
    last = event.last
    decision = next((decision for decision in event.decisions if decision.slot == last.slot), None)
    distributions = decision.distributions[0] if decision is not None else last.distributions
    return {"came": last.kind} | _said(distributions, last.token)


def _said(distributions: Distributions | None, token: int) -> TableRow:
    if distributions is None or token not in distributions.ids:
        return {}
    at = distributions.ids.index(token)
    return {"p": distributions.p[at], "q": None if distributions.q is None else distributions.q[at]}


# Rounds.


def _rounds(rounds: Rounds) -> Iterator[TableRow]:
    for event in rounds:
        counts = {name: getattr(event, name) for name in ("width", "drafted", "accepted", "depth", "cut")}
        told = {"emitted": len(event.emitted), "last": event.last.kind, "text": event.text_delta}
        stages = {f"{name}_ms": getattr(event.timings, name) for name in ("verify", "accept", "commit", "host")}
        stages["propose_ms"] = sum(event.timings.propose)
        yield _keys(event) | counts | told | stages | {"start_ms": event.start, "end_ms": event.end}


# Decisions.


def _decisions(rounds: Rounds) -> Iterator[TableRow]:
    for event in rounds:
        for number, decision in enumerate(event.decisions):
            for order, child in enumerate(decision.children):
                own = {"decision": number, "slot": decision.slot, "rule": decision.rule, "order": order}
                drawn = {"draw": decision.draw, "draw_uniform": decision.uniform, "logit_gap": decision.gap}
                yield _keys(event) | own | drawn | _verified(event, child)


def _verified(event: Round, child: Verified) -> TableRow:
    node = event.nodes[child.node]
    stands = node.fate == "accepted" and node.depth <= event.accepted
    token = {"depth": node.depth, "token": node.token, "text": _text(node.raw), "fate": node.fate, "accepted": stands}
    return child.model_dump() | token


TABLES: Mapping[str, tuple[Callable[[Rounds], Iterator[TableRow]], Mapping[str, str]]] = {
    "tokens": (_tokens, TOKENS),
    "rounds": (_rounds, ROUNDS),
    "decisions": (_decisions, DECISIONS),
}


# Files.


def write(table: pd.DataFrame, path: str | Path) -> None:
    """Writes a table as its name says: .csv, .parquet or .jsonl, the last one JSON object a line."""
    path = Path(path)
    refuse_format(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        FORMATS[path.suffix](table, path)
    except OSError as error:
        raise DraftscopeError(f"'{path}' cannot be written ({error.strerror}); choose another file.") from None


def refuse_format(path: str | Path) -> None:
    """One sentence for a name that no table can be written under here."""
    suffix = Path(path).suffix
    if suffix not in FORMATS:
        raise DraftscopeError(f"'{path}': name a file that ends in {', '.join(FORMATS)}.")
    if suffix == ".parquet" and find_spec("pyarrow") is None:
        raise DraftscopeError("Parquet needs pyarrow; install it with: pip install 'draftscope[export]'")


def _write_csv(table: pd.DataFrame, path: Path) -> None:
    table.to_csv(path, index=False, lineterminator="\n")


def _write_parquet(table: pd.DataFrame, path: Path) -> None:
    table.to_parquet(path, index=False)


def _write_json_lines(table: pd.DataFrame, path: Path) -> None:
    """By hand, because pandas would round: a number is written in full, what is missing as null."""
    with path.open("w", encoding="utf-8") as file:
        for row in table.astype(object).where(table.notna(), None).to_dict("records"):
            file.write(json.dumps(row, allow_nan=False) + "\n")


FORMATS = {".csv": _write_csv, ".parquet": _write_parquet, ".jsonl": _write_json_lines}
