"""Published formats of trained heads: reading and writing."""
