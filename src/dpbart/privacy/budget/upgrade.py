"""Upgrades of ledgers that earlier versions wrote."""

from __future__ import annotations

import sqlite3
from decimal import Decimal

from dpbart.privacy.budget.ids import normal_id
from dpbart.privacy.budget.schema import EVERYBODY, FORMAT, default_delta, events_to
from dpbart.privacy.decimals import EXACT
from dpbart.privacy.event import Event

_NEW_COLUMNS = (
    "people INTEGER NOT NULL DEFAULT 0",
    "units TEXT NOT NULL DEFAULT ''",
    "nonce TEXT NOT NULL DEFAULT ''",
    "safe INTEGER NOT NULL DEFAULT 0",
    "finished TEXT",
)


def upgrade(connection: sqlite3.Connection) -> int:
    """Upgrade a ledger of format 1 or 2, inside a transaction. Returns the format that it has now."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()  # another process may just have upgraded it
    if version == 1:
        _write_events(connection)
    if version in (1, 2):
        for column in _NEW_COLUMNS:
            connection.execute(f"ALTER TABLE runs ADD COLUMN {column}")
        # A part was saved before the next one was recorded.
        connection.execute("UPDATE runs SET safe = rows_before")
        connection.execute("ALTER TABLE runs DROP COLUMN rows_before")
        _merge_people(connection)
        _write_limits(connection)
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        return FORMAT
    return int(version)


def _write_events(connection: sqlite3.Connection) -> None:
    """Format 1 stored a noise multiplier, and the epsilons of text and label as one sum."""
    runs = connection.execute("SELECT run, mechanism, epsilon, delta, multiplier, beside FROM runs").fetchall()
    connection.execute("ALTER TABLE runs ADD COLUMN events TEXT NOT NULL DEFAULT '[]'")
    for run, mechanism, epsilon, delta, multiplier, beside in runs:
        label, noise = Decimal(beside), None if multiplier is None else float(multiplier)
        text = Decimal(epsilon) if Decimal(epsilon).is_infinite() else EXACT.subtract(Decimal(epsilon), label)
        events = [Event(mechanism, text, Decimal(delta), noise)]
        events += [Event("response", label, Decimal(0))] if label else []
        connection.execute("UPDATE runs SET events = ? WHERE run = ?", (events_to(tuple(events)), run))
    for column in ("epsilon", "delta", "multiplier", "beside"):
        connection.execute(f"ALTER TABLE runs DROP COLUMN {column}")


def _merge_people(connection: sqlite3.Connection) -> None:
    """Formats 1 and 2 knew one person by several ids, such as 7 and 7.0. Their texts add up under the normal form."""
    connection.create_function("normal_id", 1, normal_id, deterministic=True)
    connection.execute("CREATE TEMP TABLE other AS SELECT * FROM releases WHERE person != normal_id(person)")
    connection.execute("DELETE FROM releases WHERE person != normal_id(person)")
    connection.execute(
        "INSERT INTO releases (person, run, texts, last) "
        "SELECT normal_id(person), run, sum(texts), max(last) FROM other GROUP BY 1, 2 "
        "ON CONFLICT DO UPDATE SET texts = texts + excluded.texts, last = max(last, excluded.last)"
    )
    connection.execute("DROP TABLE other")
    first = "SELECT count(*), first FROM (SELECT min(run) AS first FROM releases GROUP BY person) GROUP BY first"
    connection.executemany("UPDATE runs SET people = ? WHERE run = ?", connection.execute(first).fetchall())


def _write_limits(connection: sqlite3.Connection) -> None:
    """Formats 1 and 2 limited epsilon alone. Of two limits of one person, the smaller one holds."""
    limits: dict[str, str] = {}
    for person, epsilon in connection.execute("SELECT person, epsilon FROM limits").fetchall():
        limits[normal_id(person)] = min(epsilon, limits.get(normal_id(person), epsilon), key=Decimal)
    connection.execute("DROP TABLE limits")
    connection.execute("CREATE TABLE limits (person TEXT PRIMARY KEY, epsilon TEXT, delta TEXT)")
    (people,) = connection.execute("SELECT coalesce(sum(people), 0) FROM runs").fetchone()
    everybody = (EVERYBODY, limits.pop(EVERYBODY, None), str(default_delta(people)))
    connection.execute("INSERT INTO limits VALUES (?, ?, ?)", everybody)
    connection.executemany("INSERT INTO limits VALUES (?, ?, NULL)", limits.items())
