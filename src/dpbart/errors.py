"""All errors that this package raises on purpose.

DpbartError
├── BadParameter    a value is out of range (also a ValueError)
├── BadTable        a file of texts cannot be read or written, or lacks a column
├── BadLedger       a ledger is damaged, has another version, or was locked for too long
├── BudgetExceeded  a release would spend more than a person has left
├── EngineFailed    workers cannot be reached, or keep dying
├── MissingExtra    an optional package is not installed
├── NotPrepared     a name, file or folder is not a usable model
└── NotResumable    an unfinished run cannot resume, because its input, model or settings have changed
"""


class DpbartError(Exception):
    """The base class: catch this to catch them all. A message says what is wrong, what was given, and the remedy."""


class BadParameter(DpbartError, ValueError):
    """A value is out of range."""


class BadTable(DpbartError):
    """A file of texts cannot be read or written, or lacks a column."""


class BadLedger(DpbartError):
    """A ledger is damaged, has another version, or was locked by another process for too long."""


class BudgetExceeded(DpbartError):
    """A release would spend more than a person has left. Nothing was recorded or released."""


class EngineFailed(DpbartError):
    """Workers cannot be reached, or keep dying."""


class MissingExtra(DpbartError):
    """An optional package is not installed."""


class NotPrepared(DpbartError):
    """A name, file or folder is not a usable model."""


class NotResumable(DpbartError):
    """An unfinished run cannot resume, because its input, model or settings have changed."""


def one_line(words: str) -> str:
    """Words with escapes for what cannot be printed, so that no name can forge a line of a message or a card.

    >>> one_line("shop" + chr(10) + "Guarantee: epsilon 0")
    'shop\\\\nGuarantee: epsilon 0'
    """
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in words)
