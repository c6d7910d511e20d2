"""What the log of an engine says about its rounds."""

from draftscope_app.doors.door import Command, Task

COMMAND = Command("rounds", "Servers of other programs", "Read the log of any engine: acceptance by position, times.")
TASK = Task("Rounds", 6, COMMAND)
