"""Decoding: the loop, recording it, runs, races, forks, calibration, and loading a pair."""
