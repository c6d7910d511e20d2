"""What speculation costs and saves, measured by commands in processes of their own."""
