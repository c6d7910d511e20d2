"""Plots of a finished run."""
