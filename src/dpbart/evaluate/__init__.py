"""What the rewriting kept."""
