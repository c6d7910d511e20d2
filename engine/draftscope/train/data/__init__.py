"""Training data: corpus, tokenizer, batches, credits."""
