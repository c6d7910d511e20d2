"""Forward passes: lean, native, CUDA graphs, recurrent and hybrid models, mixtures of experts, emulated sizes."""
