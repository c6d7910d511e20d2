"""The page: controls, the instrument, and what happens between them and the engine."""
