"""A drafter for any model, trained on the model's own answers."""
