"""Faults of files, before they become errors."""

from __future__ import annotations


class Fault(Exception):
    """Why the next row cannot be read, without its content. `numbered` adds the file and the number of the row."""
