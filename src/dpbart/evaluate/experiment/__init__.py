"""The paper's experiments, or your own."""
