"""The board for Grafana: panels over what prometheus_text.py says, as its JSON of dashboards (schema version 39)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ANY = 'job=~"$job",instance=~"$instance"'
COLUMNS, HEIGHT = 24, 8


@dataclass(frozen=True)
class Panel:
    """A panel: its question in words, the expressions with their legends, and the unit as Grafana calls it."""

    title: str
    queries: tuple[tuple[str, str], ...]  # expression, legend
    unit: str = "short"
    about: str = ""
    kind: str = "timeseries"
    columns: int = 8


def _rate(name: str, by: str = "instance") -> str:
    return f"sum by ({by}) (rate(draftscope_{name}{{{ANY}}}[$__rate_interval]))"


def _now(name: str) -> str:
    return f"draftscope_{name}{{{ANY}}}"


LENGTH = f"1 + {_rate('accepted_tokens_total')} / {_rate('rounds_total')}"
BY_POSITION = f"{_rate('position_kept_total', 'job, position')} / on (job) group_left () {_rate('rounds_total', 'job')}"
SPEED = f"{_rate('written_tokens_total')} / {_rate('round_seconds_total')}"
GAIN = f"{SPEED} * on (instance) group_left () {_now('plain_seconds_per_token')}"
DRAFTED = {"drafted": "drafted_tokens_total", "kept": "accepted_tokens_total", "wasted": "wasted_tokens_total"}
INSTANCE = "{{instance}}"
PANELS = (
    Panel("Tokens a round", ((_now("tokens_per_round"), INSTANCE),), about="Lately.", kind="stat"),
    Panel("Kept of the drafted tokens", ((_now("acceptance_rate"), INSTANCE),), "percentunit", "Lately.", "stat"),
    Panel(
        "Alarms",
        ((f"{_now('alarm')} == 1", "{{what}}"),),
        about="Near nothing: a broken head, or another model's draft. Near everything: a text that repeats itself.",
        kind="stat",
    ),
    Panel(
        "Tokens a round, over time",
        ((LENGTH, INSTANCE),),
        about="1 plus the drafted tokens that a round keeps.",
        columns=12,
    ),
    Panel(
        "Kept by position",
        ((BY_POSITION, "{{position}}"),),
        "percentunit",
        "Share of all rounds that kept this position and all before it.",
        columns=12,
    ),
    Panel("Drafted tokens per second", tuple((_rate(name), legend) for legend, name in DRAFTED.items())),
    Panel("Tokens written per second", ((_rate("written_tokens_total"), INSTANCE),)),
    Panel(
        "Gain over plain decoding",
        ((GAIN, INSTANCE),),
        about="Where the log has times, and --plain-ms was given. Below 1 drafting costs more than it saves.",
    ),
    Panel(
        "Rounds by how many drafted tokens they kept",
        ((_rate("accepted_per_round_bucket", "le"), "{{le}}"),),
        kind="heatmap",
        columns=24,
    ),
)


def board() -> dict[str, Any]:
    """The dashboard, to be imported by Grafana 10 or later, which asks for the Prometheus to read."""
    return {
        "title": "Speculative decoding",
        "uid": "draftscope",
        "tags": ["draftscope"],
        "schemaVersion": 39,
        "editable": True,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "10s",
        "__inputs": [{"name": "DS", "label": "Prometheus", "type": "datasource", "pluginId": "prometheus"}],
        "templating": {"list": [_variable("job"), _variable("instance")]},
        "panels": list(_placed()),
    }


def _variable(name: str) -> dict[str, Any]:
    query = f"label_values(draftscope_up, {name})"
    return {
        "name": name, "label": name, "type": "query", "datasource": _source(), "query": {"query": query, "refId": name},
        "definition": query, "refresh": 2, "includeAll": True, "allValue": ".*", "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }  # fmt: skip


def _placed() -> Iterator[dict[str, Any]]:
    """The panels from left to right, a new row where one is full."""
    x = y = 0
    for number, panel in enumerate(PANELS, start=1):
        if x + panel.columns > COLUMNS:
            x, y = 0, y + HEIGHT
        yield _panel(panel, number, {"x": x, "y": y, "w": panel.columns, "h": HEIGHT})
        x += panel.columns


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    form = "heatmap" if panel.kind == "heatmap" else "time_series"
    queries = [
        {"refId": chr(ord("A") + i), "datasource": _source(), "expr": query, "legendFormat": legend, "format": form}
        for i, (query, legend) in enumerate(panel.queries)
    ]
    return {
        "id": number, "type": panel.kind, "title": panel.title, "description": panel.about, "gridPos": place,
        "datasource": _source(), "targets": queries,
        "fieldConfig": {"defaults": {"unit": panel.unit, "noValue": "not known"}, "overrides": []}, "options": {},
    }  # fmt: skip


def _source() -> dict[str, str]:
    return {"type": "prometheus", "uid": "${DS}"}
