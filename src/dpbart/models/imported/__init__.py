"""Weights that were made elsewhere, turned into model directories."""
