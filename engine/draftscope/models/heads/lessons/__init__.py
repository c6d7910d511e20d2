"""How heads learn: their losses, and those of targets and draft models."""
