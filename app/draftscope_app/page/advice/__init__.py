"""Decide: a form, what it asks the engine for, and the verdict with its map."""
