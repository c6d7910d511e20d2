"""What happens on the page, by subject: runs, comparisons and checks, settings, files, the engine's state."""
