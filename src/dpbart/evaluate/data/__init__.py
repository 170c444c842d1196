"""Labelled data sets for evaluation."""
