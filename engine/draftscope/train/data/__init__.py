"""Training text: a corpus and its tokenizer, prompts and the target's answers to them, the batches of every step."""
