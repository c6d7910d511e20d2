"""Should this model speculate, with what, and what does it save?"""

from draftscope_app.doors.door import Door

DOOR = Door(
    "decide",
    "Decide",
    1,
    "Guessing pays when the passes it saves take longer than the guesses and the larger checks do. Try it "
    "on your prompts.",
)
