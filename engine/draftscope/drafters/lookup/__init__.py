"""Drafters without a model: n-grams, suffixes, lookahead."""
