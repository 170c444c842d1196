"""What a whole collection says."""
