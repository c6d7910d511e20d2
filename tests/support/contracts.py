"""Which drafters the contracts hold for, and with which options: read from the registry, so that none is forgotten."""

from __future__ import annotations

from typing import Any

from draftscope.drafters import DrafterInfo, known

SMALL = {
    "gamma": 3, "shape": (3, 2), "tree_nodes": 6, "tree_depth": 3, "tree_width": 2, "window": 3, "oracle_alpha": 0.6,
    "exit_layer": 1,
}  # fmt: skip
LARGER = SMALL | {"gamma": 4, "shape": (3, 2, 1), "tree_nodes": 9, "tree_width": 3, "window": 4}


def contracted() -> dict[str, DrafterInfo]:
    """Every drafter that a pair with all heads can run, but for those through text and bandits."""
    return {name: info for name, info in known().items() if not (info.needs_text_draft or "arms" in info.uses)}


def example(info: DrafterInfo, values: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Those of the values that the drafter reads."""
    return {name: value for name, value in (values | more).items() if name in info.uses}


def examples(values: dict[str, Any], **more: Any) -> dict[str, dict[str, Any]]:
    """The same of every drafter, by name."""
    return {name: example(info, values, **more) for name, info in contracted().items()}


def chains() -> tuple[str, ...]:
    """Those whose chain is drawn and verified by a rule, the only ones that read one."""
    return tuple(name for name, info in contracted().items() if "rule" in info.uses)


def trees() -> tuple[str, ...]:
    return tuple(name for name, info in contracted().items() if info.grows_trees)
