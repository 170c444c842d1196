"""Channels between encoder and decoder: they bound, randomise and restore."""
