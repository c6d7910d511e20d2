"""The instrument as one script: the files of assets/instrument in order, behind the theme. Nothing is built."""

from __future__ import annotations

import json

from draftscope.assets import assets
from draftscope_app.theme import palette

ORDER = (
    "core",
    "store",
    "stages",
    "sentence",
    "transport",
    "lanes",
    "roundtable",
    "strip",
    "tree",
    "mask",
    "round",
    "laws",
    "bars",
    "trial",
    "contest",
    "scale",
    "numbers",
    "figures",
    "formula",
    "why",
    "audit",
    "exact",
    "unfold",
    "style",
    "element",
    "page",
)


def script() -> str:
    """Plain classic scripts over one namespace, `Draftscope`."""
    theme = f"window.Draftscope = {{ theme: {_inline(palette())}, presets: {_inline(presets())} }};"
    files = [(assets() / "instrument" / f"{name}.js").read_text(encoding="utf-8") for name in ORDER]
    return "\n".join([theme, *files])


def presets() -> dict[str, list[str]]:
    """Kind of text -> prompts."""
    loaded: dict[str, list[str]] = json.loads((assets() / "prompts.json").read_text(encoding="utf-8"))
    return loaded


def _inline(value: object) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(value).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
