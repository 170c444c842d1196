"""The tables of a ledger, and how events are written in them."""

from __future__ import annotations

import json
from decimal import Decimal

from dpbart.privacy.budget.composition import Release
from dpbart.privacy.event import Event

FORMAT = 3
EVERYBODY = ""  # the id of the default limit in the table of limits
APPLICATION = 0x64706274  # "dpbt": marks a SQLite file as a ledger
TABLES = """
CREATE TABLE runs (
  run TEXT PRIMARY KEY,
  begun TEXT NOT NULL,       -- date and time, UTC
  mechanism TEXT NOT NULL,
  model TEXT NOT NULL,       -- name@fingerprint
  events TEXT NOT NULL,      -- JSON: what the texts of a row and their label spend, budgets as decimal strings
  rows_upto INTEGER NOT NULL DEFAULT 0,    -- recorded in total
  people INTEGER NOT NULL DEFAULT 0,       -- people whom this run recorded first
  units TEXT NOT NULL DEFAULT '',          -- what was counted: people or texts ('': unknown)
  nonce TEXT NOT NULL DEFAULT '',          -- shared with the folder of the unfinished run
  safe INTEGER NOT NULL DEFAULT 0,         -- rows whose new texts are saved
  finished TEXT                            -- date and time, UTC (NULL: the output is not written yet)
);
CREATE TABLE releases (
  person TEXT NOT NULL,
  run TEXT NOT NULL REFERENCES runs,
  texts INTEGER NOT NULL,
  last TEXT NOT NULL,        -- date and time, UTC
  PRIMARY KEY (person, run)
) WITHOUT ROWID;
CREATE TABLE limits (
  person TEXT PRIMARY KEY,   -- '' is the default for everybody, and has a delta
  epsilon TEXT,              -- the most (NULL: the default for everybody, or no limit)
  delta TEXT                 -- at which spending is measured (NULL: the default for everybody)
);
"""


def default_delta(people: int) -> Decimal:
    """The delta of a new ledger: 1e-5, or the largest power of ten that is at most a tenth of 1 / people.

    >>> [str(default_delta(people)) for people in (0, 9_999, 10_000, 2_000_000)]
    ['0.00001', '0.00001', '0.000001', '1E-8']
    """
    return Decimal(1).scaleb(-max(5, len(str(people)) + 1))


def release_to(release: Release) -> str:
    """A release as JSON: its events or, if a row has several texts, an object that says how many."""
    events = events_to(release.events)
    return events if release.texts == 1 else json.dumps({"texts": release.texts, "events": json.loads(events)})


def release_from(held: str) -> Release:
    """Read a release from JSON. Raises ValueError, TypeError or KeyError if it is damaged."""
    read = json.loads(held)
    if isinstance(read, list):
        return Release(events_from(held))
    texts = int(read["texts"])
    if not 1 <= texts <= len(read["events"]):
        raise ValueError("a release has an event for each text")
    return Release(events_from(json.dumps(read["events"])), texts)


def events_to(events: tuple[Event, ...]) -> str:
    """Events as JSON, with every digit kept."""
    held = [[each.mechanism, str(each.epsilon), str(each.delta), each.parameter] for each in events]
    return json.dumps(held)


def events_from(held: str) -> tuple[Event, ...]:
    """Read events from JSON. Raises ValueError or TypeError if they are damaged."""
    return tuple(
        Event(str(mechanism), Decimal(epsilon), Decimal(delta), None if parameter is None else float(parameter))
        for mechanism, epsilon, delta, parameter in json.loads(held)
    )
