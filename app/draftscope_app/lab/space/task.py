"""The dashboard as a Hugging Face Space."""

from draftscope_app.doors.door import Command, Task

COMMAND = Command("space", "Dashboard", "Build the dashboard as a Hugging Face Space, or upload it.")
TASK = Task("Space", 3, COMMAND)
