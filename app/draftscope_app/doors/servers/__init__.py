"""Servers of other programs: raced, put under load, audited, looked into."""

from draftscope_app.doors.door import Door

DOOR = Door(
    "servers",
    "Servers",
    2,
    "Servers that already run get the same prompts: which is faster, how it holds under load, and whether its text is "
    "still its target’s.",
)
