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

from __future__ import annotations

import importlib.util


class DpbartError(Exception):
    """The base class: catch this to catch them all. A message says what is wrong, what was given, and the remedy.

    try:
        Rewriter.load("no-such-model", epsilon=50)
    except DpbartError as error:
        print(error)
    """


class BadParameter(DpbartError, ValueError):
    """A value is out of range.

    Guarantee(epsilon=-1, delta=0)
    """


class BadTable(DpbartError):
    """A file of texts cannot be read or written, or lacks a column.

    rewrite_file(Request(Path("missing.csv"), Path("private.csv")), Settings(epsilon=50))
    """


class BadLedger(DpbartError):
    """A ledger is damaged, has another version, or was locked by another process for too long.

    Ledger(Path("notes.csv"))
    """


class BudgetExceeded(DpbartError):
    """A release would spend more than a person has left. Nothing was recorded or released.

    request = Request(
        Path("notes.csv"), Path("private.csv"), person_column="who", ledger=Path("budgets.db"), person_budget=5.0
    )
    rewrite_file(request, Settings(epsilon=50))
    """


class EngineFailed(DpbartError):
    """Workers cannot be reached, or keep dying.

    request = Request(Path("notes.csv"), Path("private.csv"))
    rewrite_file(request, Settings(epsilon=50), engine="ray", address="127.0.0.1:1")
    """


class MissingExtra(DpbartError):
    """An optional package is not installed. The message says what to install.

    rewrite_file(Request(Path("notes.csv"), Path("private.xlsx")), Settings(epsilon=50))  # without dpbart[excel]
    """


class NotPrepared(DpbartError):
    """A name, file or folder is not a usable model.

    Rewriter.load("no-such-model", epsilon=50)
    """


class NotResumable(DpbartError):
    """An unfinished run cannot resume, because its input, model or settings have changed.

    rewrite_file(Request(Path("notes.csv"), Path("begun.csv"), resume=True), Settings(epsilon=20))  # begun with 50
    """


def one_line(words: str) -> str:
    """Words with escapes for what cannot be printed, so that no name can forge a line of a message or a card.

    >>> one_line("shop" + chr(10) + "Guarantee: epsilon 0")
    'shop\\\\nGuarantee: epsilon 0'
    """
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in words)


def require_extra(extra: str, needing: str, *packages: str) -> None:
    """Refuse to continue without the packages of an extra. Imports nothing.

    Args:
        extra: its name in pyproject.toml.
        needing: the start of the message, such as "signatures need".
        packages: the modules that will be imported.

    Raises:
        MissingExtra: One of them is not installed.
    """
    if any(importlib.util.find_spec(package) is None for package in packages):
        raise MissingExtra(f"{needing} an extra package. Install it with: pip install 'dpbart[{extra}]'")
