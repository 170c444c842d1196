"""The paper's experiments, and your own."""
