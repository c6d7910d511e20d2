"""The log's format as a JSON Schema, made of the models that read it: `python -m draftscope.log.schema` writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from draftscope.log.entries import LoggedRound, LogStart

SCHEMA = Path(__file__).with_name("schema.json")


def schema() -> dict[str, Any]:
    """What a line of the log may be: its start, or a round."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of a log of rounds, version 1",
        "anyOf": [LogStart.model_json_schema(), LoggedRound.model_json_schema()],
    }


def text() -> str:
    """The content of `schema.json`."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(text(), encoding="utf-8")
