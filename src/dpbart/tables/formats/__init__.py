"""One file a format: reading and writing."""
