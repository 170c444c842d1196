"""Where batches are rewritten: in this process, in several, or on Ray."""
