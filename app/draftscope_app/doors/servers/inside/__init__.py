"""The rounds of a server, as the recorder inside it saw them."""
