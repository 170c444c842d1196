"""What people have spent, and what they may still spend."""
