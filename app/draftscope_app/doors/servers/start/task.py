"""How to start servers that can be raced."""

from draftscope_app.doors.door import Command, Task

COMMAND = Command("servers", "Servers of other programs", "Print or run commands that start servers to race.")
TASK = Task("Start servers", 0, COMMAND)
