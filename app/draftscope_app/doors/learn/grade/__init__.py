"""A grader for a student's own rules."""
