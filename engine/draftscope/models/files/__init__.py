"""Checkpoint files: the memory they need, the hub, `from_pretrained`."""
