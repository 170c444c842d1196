"""The mathematics of the guarantee: numbers and arrays only, no model."""
