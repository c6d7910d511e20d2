"""What a visitor has measured: a file for each task, with its job and how it is shown."""
