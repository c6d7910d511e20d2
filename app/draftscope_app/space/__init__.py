"""The Space: what `space.yaml` says, the folder that is rendered from it, its upload, and its entry."""
