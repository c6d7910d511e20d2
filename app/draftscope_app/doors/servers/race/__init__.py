"""Servers of other programs, and this engine, on the same tokens."""
