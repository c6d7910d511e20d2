"""Servers under load: many requests at once."""

from draftscope_app.doors.door import Task

TASK = Task("Load test", 2)
