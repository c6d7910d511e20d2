"""Measuring: exactness checks, comparisons, benchmarks, regret, the GPU suite."""
