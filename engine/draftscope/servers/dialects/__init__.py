"""One file for each kind of server: how it is asked and what its answers mean."""
