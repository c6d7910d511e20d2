"""Models: caches, forward passes, trained heads, files, and loading."""
