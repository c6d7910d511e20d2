"""Training text for drafters of any model: prompts, the target's own answers to them, and its features on both."""
