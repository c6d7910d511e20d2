"""Verdicts as a file: written by `draftscope claims --save`, read by the page. Nothing in it is typed in by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.claims.claim import Claim, Judged
from draftscope.claims.evidence import Evidence, read
from draftscope.claims.table import CLAIMS

FILE = "claims.json"


def values(claim: Claim, found: Judged) -> dict[str, Any]:
    """A claim and its verdict as plain values."""
    own = {"number": claim.number, "sentence": claim.sentence, "command": claim.command, "rule": claim.rule}
    return {**own, **asdict(found)}


def save(path: Path, evidence: Evidence, claims: Iterable[Claim] = CLAIMS) -> None:
    """Writes all verdicts, with the date and the machine of the results. Raises `DraftscopeError` if it cannot."""
    found = {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": dict(evidence.machine),
        "claims": [values(claim, claim.judged(evidence)) for claim in claims],
    }
    try:
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DraftscopeError(f"--save {path}: the file cannot be written ({reason}); name another.") from None


def shipped() -> Mapping[str, Any]:
    """The latest verdicts among the shipped results; without any, all claims as not measured."""
    files = sorted((assets() / "results").glob(f"*/{FILE}"))
    found = [read(file, "claims") for file in files]
    if found:
        return max(found, key=lambda each: str(each["created"]))
    nothing = Evidence()
    return {"created": "", "machine": {}, "claims": [values(claim, claim.judged(nothing)) for claim in CLAIMS]}
