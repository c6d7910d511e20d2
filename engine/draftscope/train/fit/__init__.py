"""Fitting a student: lessons, sources of text, optimizers, the loop, and how well it predicts held-out text."""
