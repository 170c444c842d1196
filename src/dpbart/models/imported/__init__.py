"""Turn weights that were trained elsewhere into model directories."""
