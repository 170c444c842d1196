"""Labelled data sets to judge a rewriting by."""
