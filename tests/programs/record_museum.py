"""Records what the museum's page shows: python -m tests.programs.record_museum

It runs `draftscope museum` and keeps of each exhibit its words, a picture, and how both audits ended.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from draftscope.base.load_settings import LoadSettings
from draftscope.decode.engine import DecodingEngine
from draftscope.servers.audit.audit import AuditReport
from draftscope.servers.museum.exhibits import NOT_REPRODUCED
from draftscope.servers.museum.server import Kept
from draftscope.servers.museum.tour import Exhibited, tour
from draftscope_app.cli import command_options
from draftscope_app.doors.servers.museum.command import TARGET, about
from draftscope_app.doors.servers.museum.page import MUSEUM
from tests.programs.museum_picture import picture


def record(engine: DecodingEngine, shown: list[Exhibited]) -> dict[str, Any]:
    """As the page reads it."""
    kept = Kept()
    exhibits = [
        {
            **about(each.exhibit),
            "wrong": ended(each.wrong),
            "mended": ended(each.mended),
            "picture": asdict(picture(engine, each.exhibit, kept)),
        }
        for each in shown
    ]
    return {"exhibits": exhibits, "not_reproduced": NOT_REPRODUCED}


def ended(report: AuditReport) -> Mapping[str, Any]:
    """An audit as its card shows it."""
    assert report.sampled is not None
    return {
        "verdict": report.verdict, "different": report.different, "incomplete": report.incomplete,
        "texts": report.sampled["samples"], "evidence": report.sampled["evidence"],
        "parts": report.sampled["evidence_by_test"], "needed": math.log(1 / report.settings["false_alarm"]),
    }  # fmt: skip


def main() -> None:
    engine = command_options.load(LoadSettings(target=TARGET, dtype="float32", device="cpu", threads=1))
    MUSEUM.write_text(json.dumps(rounded(record(engine, list(tour(engine)))), indent=1) + "\n", encoding="utf-8")
    print(MUSEUM)


def rounded(value: Any) -> Any:
    """Four digits of every number."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {name: rounded(each) for name, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, (list, tuple)) else value


if __name__ == "__main__":
    main()
