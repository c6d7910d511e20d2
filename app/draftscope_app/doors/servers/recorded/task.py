"""A recorded race of servers and their recorded audits, to see what the door shows before a server is there."""

from draftscope_app.doors.door import Task

TASK = Task("Recorded servers", 6)
