"""Singular and plural."""

from __future__ import annotations


def count(number: int, thing: str) -> str:
    """`1 token`, `2 tokens`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
