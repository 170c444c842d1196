"""Budgets as exact decimals: 0.1 spent ten times is 1, not 0.9999999999999999."""

from __future__ import annotations

from decimal import Context, Decimal, Inexact, InvalidOperation

# A budget has at most 17 digits and a count far fewer than 30, so nothing is ever rounded. Rounding raises an error.
EXACT = Context(prec=150, traps=[Inexact, InvalidOperation])


def exactly(value: float) -> Decimal:
    """The decimal as the user wrote it, not the nearest binary fraction.

    >>> exactly(0.1) * 10 == 1
    True
    """
    return Decimal(repr(value))


def written(value: Decimal) -> str:
    """A decimal for people: no exponent unless it is very small, no trailing zeros.

    >>> [written(Decimal(each)) for each in ("1E+3", "0.10", "1e-05", "Infinity")]
    ['1000', '0.1', '0.00001', 'infinite']
    """
    if not value.is_finite():
        return "infinite"
    return f"{value.normalize():f}" if value == 0 or abs(value) >= Decimal("1e-6") else f"{value.normalize():e}"


def times(value: Decimal, count: int) -> Decimal:
    """A budget spent `count` times, exactly."""
    return EXACT.multiply(value, Decimal(count))


def minus(first: Decimal, second: Decimal) -> Decimal:
    """What is left of a budget, exactly; never below 0."""
    return max(EXACT.subtract(first, second), Decimal(0)) if first.is_finite() else first
