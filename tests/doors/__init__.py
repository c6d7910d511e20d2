"""Doors and their tasks, found by their folders."""
