"""How the two embedded models are made: corpus, tokenizer, target, draft, model card."""
