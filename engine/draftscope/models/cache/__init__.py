"""Caches with rows of a draft tree: keys and values, recurrent states, attention masks."""
