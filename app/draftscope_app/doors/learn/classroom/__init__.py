"""A class: a presenter's projector, the phones of a room, and questions about real rounds that all of them answer."""
