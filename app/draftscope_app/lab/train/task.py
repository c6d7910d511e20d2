"""How the embedded models are made."""

from draftscope_app.doors.door import Command, Task

COMMAND = Command("train", "Models", "Train the embedded models, all or some.")
TASK = Task("Train", 4, COMMAND)
