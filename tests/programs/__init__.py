"""What only developers run. Nothing here is in the wheel."""
