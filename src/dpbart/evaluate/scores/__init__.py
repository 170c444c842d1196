"""What a rewriting kept: BLEU, F1."""
