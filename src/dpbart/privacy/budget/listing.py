"""The people in a ledger, page by page."""

from __future__ import annotations

from pathlib import Path

from dpbart.privacy.budget.database import connect, one_line_errors


def people_in(file: Path, *, start: int, count: int) -> list[str]:
    """The ids of `count` people, in their order, from number `start` on; the first one has the number 0."""
    connection = connect(file, create=False, people=0)
    try:
        with one_line_errors(file):
            query = "SELECT DISTINCT person FROM releases ORDER BY person LIMIT ? OFFSET ?"
            return [person for (person,) in connection.execute(query, (count, start))]
    finally:
        connection.close()
