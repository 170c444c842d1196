"""Sentence encoders, which only judge rewritten texts: any BERT-like model, or the one inside a code model."""
