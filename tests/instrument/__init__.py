"""The instrument's pure functions, run under node."""
