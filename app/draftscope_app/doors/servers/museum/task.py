"""Published bugs, rebuilt small, and their mends."""

from draftscope_app.doors.door import Command, Task

COMMAND = Command("museum", "Is it exact?", "Audit published bugs, rebuilt small, and their mends.")
TASK = Task("Museum", 5, COMMAND)
