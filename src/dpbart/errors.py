"""Every error this package raises on purpose.

DpbartError
├── BadParameter    a value outside what the method allows (also a ValueError)
├── BadTable        a file of texts that cannot be read, or lacks a column
├── BadLedger       a ledger that is damaged, of another version, or held by others for too long
├── BudgetExceeded  a release would spend more than a person has left
├── EngineFailed    workers that cannot be reached, or keep dying
├── MissingExtra    an optional package is not installed
├── NotPrepared     a folder, file or name that is not a model this package can use
└── NotResumable    an unfinished run that cannot go on: its input, model or settings have changed
"""


class DpbartError(Exception):
    """The root: catch this to catch them all. The message says what, got, and the remedy."""


class BadParameter(DpbartError, ValueError):
    """A value outside what the method allows."""


class BadTable(DpbartError):
    """A file of texts that cannot be read as one, or lacks a column."""


class BadLedger(DpbartError):
    """A ledger that is damaged, of another version, or held by others for too long."""


class BudgetExceeded(DpbartError):
    """A release would spend more than a person has left. Nothing was recorded or released."""


class EngineFailed(DpbartError):
    """Workers that cannot be reached, or keep dying."""


class MissingExtra(DpbartError):
    """An optional package is not installed."""


class NotPrepared(DpbartError):
    """A folder, file or name that is not a model this package can use."""


class NotResumable(DpbartError):
    """An unfinished run that cannot go on: its input, model or settings have changed."""
