"""Compare: every drafter on one prompt, whole runs taking turns."""

from draftscope_app.doors.door import Task

TASK = Task("Compare", 1)
