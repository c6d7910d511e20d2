"""A grader for a student's own rules."""

from draftscope_app.doors.door import Command, Task

COMMAND = Command("grade", "Is it exact?", "Grade a student's own rule, residual, rewind and end of text.")
TASK = Task("Grade", 9, COMMAND)
