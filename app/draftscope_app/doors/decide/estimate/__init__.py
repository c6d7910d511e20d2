"""What the shown run says of other lengths of a draft, drawn by the instrument alone."""
