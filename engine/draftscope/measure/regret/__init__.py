"""Regret of a policy against the best fixed setting."""
