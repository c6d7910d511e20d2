"""The dashboard and the command line of Draftscope. They read events; `draftscope`, the engine, makes them."""
