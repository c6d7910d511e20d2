"""Lessons on recorded runs."""

from draftscope_app.doors.door import Task

TASK = Task("Lessons", 1)
