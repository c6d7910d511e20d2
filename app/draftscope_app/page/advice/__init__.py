"""The card "Should I?": a form, what it asks the engine for, and the answer with its map."""
