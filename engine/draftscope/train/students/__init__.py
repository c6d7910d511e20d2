"""The models to train: their shapes, their initial weights and their losses."""
