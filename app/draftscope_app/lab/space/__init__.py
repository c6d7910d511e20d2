"""The Space: its description `space.yaml`, the folder that is built from it, its upload, and its entry point."""
