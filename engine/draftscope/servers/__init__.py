"""Servers of other programs: drive them, read what they count, race them and put them under load."""
