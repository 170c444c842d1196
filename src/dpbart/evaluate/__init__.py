"""How much a rewriting keeps."""
