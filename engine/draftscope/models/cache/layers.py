"""What a text configuration says of its layers one by one: some models have heads of another width in some of them, and
their configuration then refuses to name one for all."""

from __future__ import annotations

from typing import Any

from draftscope.base.errors import DraftscopeError

STATES = ("linear_attention", "conv")  # kinds of layers that keep a state, which `hybrid` can roll back

Shape = tuple[int, int]  # heads of keys and values, and their width


def is_mixed(config: Any) -> bool:
    """Whether some layers have another shape or window than others of their type."""
    return bool(getattr(config, "is_heterogeneous", False))


def by_layer(config: Any) -> list[Any]:
    """The configuration as each layer reads it."""
    if is_mixed(config):
        return list(config.per_layer_config)
    return [config] * int(config.num_hidden_layers)


def kinds(config: Any) -> list[str]:
    """The type of each layer; 'full_attention' where there is none."""
    count = int(config.num_hidden_layers)
    return [*(getattr(config, "layer_types", None) or ()), *["full_attention"] * count][:count]


def shapes(config: Any) -> list[Shape | None]:
    """The shape of what each layer writes to the cache; None for one that keeps a state, or reads another's keys."""
    written = len(kinds(config)) - int(getattr(config, "num_kv_shared_layers", None) or 0)
    return [
        shape_of(layer) if i < written and kind not in STATES else None
        for i, (kind, layer) in enumerate(zip(kinds(config), by_layer(config), strict=True))
    ]


def of_kind(config: Any, kind: str, key: str, name: str) -> Any:
    """What all layers of that type have under `key`; `kind` is empty for all layers. DraftscopeError if they differ."""
    layers = zip(kinds(config), by_layer(config), strict=True)
    values = [getattr(layer, key, None) for layer_kind, layer in layers if kind in ("", layer_kind)]
    if any(value != values[0] for value in values):
        raise DraftscopeError(
            f"'{name}' has layers of the same type that differ in '{key}', which cannot be masked here; choose another "
            "model."
        )
    return values[0] if values else None


def shape_of(config: Any) -> Shape:
    """The shape of what a layer of this configuration writes."""
    heads = getattr(config, "num_attention_heads", None) or 1
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    return getattr(config, "num_key_value_heads", None) or heads, width
