"""Make a model from public text."""
