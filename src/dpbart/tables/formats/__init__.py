"""Table formats: one file for each format, which reads and writes it, and one line in `registry.py`."""
