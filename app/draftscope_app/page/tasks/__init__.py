"""What a visitor has measured: the jobs of tasks, and how they are shown."""
