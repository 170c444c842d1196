"""How much a rewriting kept: BLEU and F1."""
