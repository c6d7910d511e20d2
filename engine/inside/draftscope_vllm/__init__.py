"""A recorder inside vLLM: every drafted token with p, q, the random number and the verdict. See README.md."""
