"""How to start servers that can be raced."""
