"""Tables of texts, read and written in batches. Each format is one file in `formats`."""
