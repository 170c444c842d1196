"""What stands between encoder and decoder: bound, randomise, restore."""
