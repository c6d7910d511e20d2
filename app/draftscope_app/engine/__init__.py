"""Between the page and the decoding: the engine process, who may start a run, and what each visitor sees."""
