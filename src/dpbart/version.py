"""The version and the default model. This module imports nothing, so every room may import it."""

__version__ = "0.1.0"
DEFAULT_MODEL = "mini-code"
