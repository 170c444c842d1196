"""The privacy card: made, shown, signed and verified."""
