"""The ledger: who has spent what."""
