"""Commands that record the runs shipped in assets/."""
