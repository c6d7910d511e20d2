"""The GPU suite: what `make gpu` runs on a CUDA machine."""
