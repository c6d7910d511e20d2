"""What a recorder inside a server wrote down (engine/inside), and the audit of it."""
