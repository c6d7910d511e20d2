"""What the forecast in the browser (forecast/forecast-formula.js) reads: models, drafts, cards, engines and priors, as
numbers.

What a drafter runs for a model is worked out here, by the rules of `draftscope.forecast.drafter_forwards`; the
formula itself is written in JavaScript once more, and a test holds both to each other.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from draftscope.base.errors import DraftscopeError
from draftscope.forecast import cost, forecast, runnable
from draftscope.forecast.acceptance_priors import LEVEL_Z, TEXTS
from draftscope.forecast.architecture import SEQUENCE_POWER, Architecture, find_architecture
from draftscope.forecast.drafter_forwards import DraftPlan, find_kind, plan_drafting
from draftscope.forecast.hardware_tables import find_card, find_engine, read_table
from draftscope.forecast.held import held_to

CONSTANTS = ("BANDWIDTH", "EXPERT_BANDWIDTH", "EXPERT_MS", "COMPUTE", "REDUCE_MS", "HOP_MS", "NVLINK_GB_S")
LINKED = ("SERVER", "RACK", "RACK_GB_S")


def tables() -> dict[str, Any]:
    """All of it, ready for JSON."""
    models = {name: find_architecture(name) for name in _names("models")}
    sizes: dict[str, dict[str, Any]] = {}  # of drafts, by what they are equal in
    plans = {name: {kind: _plans(model, kind, sizes) for kind in _names("drafters")} for name, model in models.items()}
    constants = {name: getattr(cost, name) for name in CONSTANTS + LINKED}
    constants |= {"COST_SPREAD": forecast.COST_SPREAD, "MOST": forecast.MOST, "LEVEL_Z": LEVEL_Z}
    return {
        "constants": constants | {"SEQUENCE_POWER": SEQUENCE_POWER},
        "models": {name: sizes_of(model) for name, model in models.items()},
        "drafts": list(sizes.values()),
        "plans": plans,
        "cards": {name: asdict(find_card(name)) for name in _names("cards")},
        "engines": {name: asdict(find_engine(name)) for name in _names("engines")},
        "texts": [name for name, _ in TEXTS],
        "priors": [dict(row) for row in read_table("priors")],
        "held": _held(),
    }


def _names(table: str) -> list[str]:
    return [row["name"] for row in read_table(table)]


def sizes_of(model: Architecture) -> dict[str, Any]:
    """What the formula reads of a model."""
    fields = ("name", "layers", "d", "heads", "kv_heads", "head_dim", "experts", "chosen", "weight_bytes", "source")
    derived = ("every_row", "expert", "expert_layers", "active", "parameters", "guessed")
    values = {name: getattr(model, name) for name in (*fields, *derived)}
    return values | {
        "latent": bool(model.latent), "mixed": bool(model.attended), "attended": model.attended or model.layers,
        "cache_bytes": model.cache_bytes(),
    }  # fmt: skip


def _plans(model: Architecture, kind: str, sizes: dict[str, dict[str, Any]]) -> list[Any]:
    """What the drafter runs where servers draft chains, and where trees; a sentence where it cannot."""
    return [_plan(model, kind, trees, sizes) for trees in (False, True)]


def _plan(model: Architecture, kind: str, trees: bool, sizes: dict[str, dict[str, Any]]) -> Any:
    plan = plan_drafting(find_kind(kind), model, trees=trees)
    try:
        runnable.refuse_draft(model, plan)
    except DraftscopeError as error:
        return str(error)
    return _written(plan, sizes)


def _written(plan: DraftPlan, sizes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    draft = None
    if plan.model is not None:
        values = sizes_of(plan.model)
        draft = list(sizes).index(key) if (key := str(values)) in sizes else len(sizes)
        sizes[key] = values
    return {
        "kind": plan.kind.name, "shape": plan.kind.shape, "draft": draft, "steps": plan.steps, "width": plan.width,
        "rows": plan.rows, "depth": plan.depth, "branches": plan.branches,
    }  # fmt: skip


def _held() -> dict[str, str]:
    """What was held to published speedups, by drafter, engine and card; what no row is of is under ''."""
    return {
        "/".join(place): held_to(*place)
        for kind in _names("drafters") for engine in _names("engines") for card in _names("cards")
        if (place := (kind, engine, card)) and "no row of" not in held_to(*place)
    }  # fmt: skip
