"""What the shown run says of other lengths of a draft, drawn by the instrument alone."""

from draftscope_app.doors.door import Task

TASK = Task("Estimate", 3)
