"""Classifiers that are trained on rewritten texts. To add one: its file, a line in registry.py, and its test."""
