"""Where results come from, in words."""

from __future__ import annotations

from collections.abc import Mapping


def machine_words(machine: Mapping[str, object]) -> str:
    """`device CPU, threads 2`; what is empty is left out."""
    return ", ".join(f"{name} {value}" for name, value in machine.items() if value != "")
