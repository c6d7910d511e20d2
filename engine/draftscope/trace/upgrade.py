"""Rewrites events of older schema versions as the present one, before they are validated. Imports no torch.

Version 1 (before 2026-11-22) called decisions contests, distributions laws, uniforms coins, never-accepted nodes
scouts, and the accepting stage judge. Version 2 (before 2026-11-23) had no lanes of servers.
"""

from __future__ import annotations

from typing import Any

from draftscope.trace.events import SCHEMA_VERSION

Json = dict[str, Any]

OLDEST = 1
_NODE = {"coin": "uniform", "laws": "distributions"}


def upgraded(event: Json, version: int) -> Json:
    """One event of schema version `version` as the present version writes it; malformed fields are left to validation.

    Raises KeyError, TypeError, ValueError or AttributeError where the event is not shaped like one of its version.
    """
    if event.get("kind") == "run_start":
        return event | {"schema_version": SCHEMA_VERSION}
    if version > 1:
        return event
    return _round(event) if event.get("kind") == "round" else event


def _round(event: Json) -> Json:
    event = _renamed(event, {"contests": "decisions"})
    return event | {
        "decisions": [_decision(each) for each in event["decisions"]],
        "nodes": [_node(each) for each in event["nodes"]],
        "last": _with_scale(_renamed(event["last"], _NODE)),
        "timings": _renamed(event["timings"], {"judge": "accept"}),
    }


def _decision(decision: Json) -> Json:
    renamed = _with_scale(_renamed(decision, _NODE))
    return renamed | {"children": [_renamed(child, _NODE) for child in renamed["children"]]}


def _node(node: Json) -> Json:
    return node | {"fate": "never_accepted"} if node["fate"] == "scout" else node


def _with_scale(holder: Json) -> Json:
    """`distributions` (one or a list) whose scale was 'law'."""
    found = holder.get("distributions")
    if found is None:
        return holder
    each = [_scaled(one) for one in found] if isinstance(found, list) else _scaled(found)
    return holder | {"distributions": each}


def _scaled(distributions: Json) -> Json:
    return distributions | {"scale": "probs"} if distributions.get("scale") == "law" else distributions


def _renamed(record: Json, names: dict[str, str]) -> Json:
    return {names.get(name, name): value for name, value in record.items()}
