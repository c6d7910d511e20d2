"""The training loop: steps, optimizers, precision, pretraining and distillation."""
