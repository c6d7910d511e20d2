"""The training loop: steps, optimizers, precision, pretraining, distillation, evaluation, and the target's samples."""
