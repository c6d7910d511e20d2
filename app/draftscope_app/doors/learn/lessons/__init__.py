"""Lessons on recorded runs."""
