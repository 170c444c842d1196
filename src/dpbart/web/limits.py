"""How much the server accepts at once, and how long it keeps things."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpbart.tables.bounds import Bounds


@dataclass(frozen=True)
class Limits:
    """Beyond these, a request is answered with 413 or 429 and takes no memory.

    Attributes:
        body: bytes of a request, other than an upload.
        upload: bytes of an uploaded file with its options.
        unpacked: bytes that an uploaded file may unpack to.
        row: characters of one of its rows.
        texts: texts in one request.
        characters: characters of one text.
        waiting: texts that wait to be rewritten, over all requests.
        requests: requests that are answered at the same time, other than uploads.
        memory: bytes of all their bodies together.
        uploads: uploads that arrive at the same time.
        connections: open connections. More are closed at once.
        wait_seconds: how long the next part of a request may take to arrive, or that of an answer to be taken.
        slowest: bytes per second. A client that is slower for longer than `wait_seconds` is cut off.
        jobs: file jobs that wait or run.
        kept_jobs: file jobs whose files are on disk.
        answer_seconds: how long the answer to an Idempotency-Key is kept.
        job_seconds: how long the files of a job are kept after it ended.
        downloaded_seconds: how long they are kept after the result was downloaded.
        sweep_seconds: between two looks for what is too old.
    """

    body: int = 4 << 20
    upload: int = 100 << 20
    unpacked: int = 1 << 30
    row: int = 1 << 19
    texts: int = 1_000
    characters: int = 100_000
    waiting: int = 4_000
    requests: int = 500
    memory: int = 64 << 20
    uploads: int = 4
    connections: int = 800  # fewer than the 1,024 files that a process may usually open
    wait_seconds: float = 60.0
    slowest: int = 4_000
    jobs: int = 20
    kept_jobs: int = 100
    answer_seconds: int = 24 * 3600
    job_seconds: int = 24 * 3600
    downloaded_seconds: int = 600
    sweep_seconds: float = 15.0

    def bounds(self, going: Callable[[], object]) -> Bounds:
        """What reading an uploaded file may cost; `going` raises to stop it."""
        return Bounds(self.unpacked, self.row, going)
