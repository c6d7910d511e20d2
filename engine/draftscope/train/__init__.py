"""Training of the embedded models: corpus, tokenizer, targets, drafters, model cards."""
