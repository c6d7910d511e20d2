"""Acceptance over time, of the run on Watch; drawn by the instrument alone."""

from draftscope_app.doors.door import Task

TASK = Task("Acceptance", 8)
