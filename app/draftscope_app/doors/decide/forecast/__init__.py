"""Speculation on hardware that is not at hand."""
