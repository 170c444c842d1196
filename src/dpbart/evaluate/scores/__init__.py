"""How much a rewriting kept: BLEU, similarity, names, fluency and F1."""
