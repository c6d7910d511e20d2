"""Programs that serve models: one file each, with all that is known of it; `registry` lists them."""
