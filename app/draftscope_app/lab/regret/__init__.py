"""Bandits against the best fixed setting in hindsight."""
