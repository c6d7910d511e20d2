"""The rounds of a server, as the recorder inside it saw them."""

from draftscope_app.doors.door import Task

TASK = Task("Inside", 4)
