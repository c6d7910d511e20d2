"""Forward passes: lean, compiled, CUDA graphs, recurrent and hybrid models, mixtures of experts, ballast."""
