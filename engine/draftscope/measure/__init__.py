"""Measuring: exactness checks, comparisons, benchmarks, regret."""
