"""Between page and decoding: the engine's process, limits on runs, visitors, and the server's environment."""
