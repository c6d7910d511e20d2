"""What the log of an engine says about its rounds."""
