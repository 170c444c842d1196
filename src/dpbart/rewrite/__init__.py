"""Rewrite texts in private."""
