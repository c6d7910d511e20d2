"""Servers under load: many requests at once."""
