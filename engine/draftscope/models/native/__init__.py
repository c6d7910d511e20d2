"""A forward of bfloat16 models compiled for this processor by numba: no C++ compiler, the weights once in memory."""
