"""Checkpoints as files: memory needed, the hub, `from_pretrained`."""
