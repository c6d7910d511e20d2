"""Will a head be served as it was trained?"""

from draftscope_app.doors.door import Command, Task

COMMAND = Command("inspect", "Is it exact?", "Find out whether a head will be served as it was trained.")
TASK = Task("Inspect", 1, COMMAND)
