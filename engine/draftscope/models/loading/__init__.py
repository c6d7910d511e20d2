"""From a model id or folder to a loaded model: checkpoints, devices, threads, chat templates, embedded models."""
