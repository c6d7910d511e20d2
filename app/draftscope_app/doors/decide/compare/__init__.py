"""Every drafter on one prompt."""
