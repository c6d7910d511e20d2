"""What is a command only: a folder for each, made as the tasks of a door are (`doors/door.py`)."""
