"""Judges a student's own rules of speculative decoding by exact enumeration over small distributions."""
