"""The results of training: model folders, records, model cards, evaluations."""
