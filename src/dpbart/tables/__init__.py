"""Tables of texts: one format a file, read and written in batches."""
