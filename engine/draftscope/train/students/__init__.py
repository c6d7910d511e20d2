"""What is trained: shapes, drafters before training, and their losses."""
