"""Every error this package raises on purpose.

DpbartError
├── BadParameter    a value outside what the method allows (also a ValueError)
├── BadTable        a file of texts that cannot be read, or lacks a column
└── NotPrepared     a folder, file or name that is not a model this package can use
"""


class DpbartError(Exception):
    """The root: catch this to catch them all. The message says what, got, and the remedy."""


class BadParameter(DpbartError, ValueError):
    """A value outside what the method allows."""


class BadTable(DpbartError):
    """A file of texts that cannot be read as one, or lacks a column."""


class NotPrepared(DpbartError):
    """A folder, file or name that is not a model this package can use."""
