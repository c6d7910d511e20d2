"""Should the target that is loaded here speculate on these prompts? Measured and proven."""
