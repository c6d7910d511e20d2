"""What speculation costs and saves, measured by commands in processes of their own."""

from draftscope_app.doors.door import Task

TASK = Task("Experiments", 6)
