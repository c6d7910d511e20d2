"""A class: phones predict, the projector shows."""

from draftscope_app.doors.door import Command, Task

COMMAND = Command("class", "Dashboard", "Open a class: phones predict, the projector shows.")
TASK = Task("Class", 2, COMMAND)
