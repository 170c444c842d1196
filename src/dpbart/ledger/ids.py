"""The normal form of an id, by which a ledger knows a person or a text.

The same person may be 7 in one file, "7.0" in another and " 7 " in a third. An id is therefore brought into one form:

1. A missing value or a NaN is no id. A value that is not text becomes text: true or false for a truth value, decimal
   digits for a number, JSON with sorted keys for a list or an object.
2. Unicode is composed (NFC), and blanks at both ends are removed. Nothing left means no id.
3. "true" and "false" in any case become lower case.
4. What reads as a decimal number is written in its shortest form without an exponent: "7.0", "+7", "007" and "7e0" are
   "7". Numbers with more than 40 digits stay as they are.
5. NUL and lone surrogates, which SQLite cannot hold, become U+FFFD.

Nothing else is changed. In particular, "Anna" and "anna" are two people. If two people are counted as one, they are
protected more than promised, never less.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from decimal import Decimal

from dpbart.privacy.guarantee import EXACT

_MOST_DIGITS = 40
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?")
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")


def normal_id(value: object) -> str:
    """A value as an id; empty if there is none.

    >>> [normal_id(value) for value in (7, 7.0, " 7.00 ", "007", None, float("nan"), True, "TRUE", "Anna")]
    ['7', '7', '7', '7', '', '', 'true', 'true', 'Anna']
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool | int | float | list | dict):
        value = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    plain = unicodedata.normalize("NFC", str(value)).strip()
    if plain.lower() in ("true", "false"):
        return plain.lower()
    if len(plain) <= _MOST_DIGITS and _NUMBER.fullmatch(plain):
        return _shortest(plain)
    return _UNWRITABLE.sub("\ufffd", plain)


def _shortest(number: str) -> str:
    """A decimal number without sign, zeros or exponent that it does not need."""
    exact = Decimal(number).normalize(EXACT)
    if abs(exact.adjusted()) > _MOST_DIGITS:
        return number
    return f"{exact:f}" if exact else "0"
