"""Acceptance over time, of the run on Watch."""
