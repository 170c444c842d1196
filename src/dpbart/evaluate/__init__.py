"""What the rewriting kept, and what it hid."""
