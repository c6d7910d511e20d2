"""Speculation on hardware that is not at hand."""

from draftscope_app.doors.door import Command, Task

COMMAND = Command("forecast", "How fast?", "Forecast speculation on other hardware; loads no model.")
TASK = Task("Forecast", 5, COMMAND)
