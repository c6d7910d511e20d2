"""Bandits against the best fixed setting in hindsight."""

from draftscope_app.doors.door import Command, Task

COMMAND = Command("regret", "How fast?", "Compare bandits with the best fixed setting, by kind of text.")
TASK = Task("Regret", 2, COMMAND)
