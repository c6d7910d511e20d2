"""Reports of runs and benchmarks, as text and as HTML."""
