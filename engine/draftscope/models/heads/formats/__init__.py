"""Reads and writes the published formats of trained heads."""
