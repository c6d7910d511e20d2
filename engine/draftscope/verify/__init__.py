"""Verification: draft trees, sampling, random streams, and the rules that accept or reject."""
