"""A drafter for any model, trained on the model's own answers."""

from draftscope_app.doors.door import Command, Task

COMMAND = Command("train-drafter", "Models", "Train a drafter for any model, on its own answers.")
TASK = Task("Train a drafter", 5, COMMAND)
