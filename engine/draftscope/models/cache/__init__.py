"""Caches that can hold a draft tree: keys and values, recurrent states, attention masks."""
