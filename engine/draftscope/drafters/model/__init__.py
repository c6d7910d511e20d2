"""Drafters with a draft model: chains, trees, early exit, cascades, SSD."""
