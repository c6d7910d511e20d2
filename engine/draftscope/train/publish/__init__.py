"""What training leaves: folders, records, model cards, evaluations."""
