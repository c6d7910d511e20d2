"""Training data: corpus, tokenizer, batches, text sampled from the target, credits."""
