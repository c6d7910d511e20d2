"""24 claims that people make, put to the test."""
