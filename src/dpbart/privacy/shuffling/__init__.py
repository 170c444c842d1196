"""What shuffling adds to a local guarantee: the central guarantee for those who see only the shuffled rows."""
