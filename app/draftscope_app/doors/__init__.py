"""The doors of the page: a folder for each, and in it a folder for each task. `door.py` says what may be in one."""
