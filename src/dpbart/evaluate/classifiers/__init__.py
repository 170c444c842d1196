"""Classifiers that learn from rewritten texts."""
