"""Published bugs, rebuilt small, and their mends."""
